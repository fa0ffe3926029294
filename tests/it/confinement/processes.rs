//! Processes: a confined one starts none without a grant, and never touches those of others.

use serde_json::json;

use super::{EACCES, EPERM, Stage, nothing, parent_is_another_users, path, unconfined};

#[test]
fn no_process_is_started_without_a_grant() {
    for stage in [Stage::new(nothing), Stage::anything_readable()] {
        for method in ["fork", "clone_user_namespace", "clone_for_parent", "new_user_namespace"] {
            stage.assert_denied(method, &json!({}), &[EPERM]);
        }
        for method in ["run", "execute", "execute_memory"] {
            stage.assert_denied(method, &path("/bin/true"), &[EPERM, EACCES]);
        }
        stage.assert_denied("write_after_two_forks", &path(stage.outside("made")), &[EPERM]);
        stage.assert_untouched();
    }
}

#[test]
fn the_parent_is_out_of_reach() {
    for stage in [Stage::new(nothing), Stage::anything_readable()] {
        for method in [
            "signal_parent",
            "signal_all",
            "signal_parent_by_descriptor",
            "own_signals_to_parent",
            "trace_me",
            "trace_parent",
            "read_parent_memory",
            "limit_parent",
            "outlive_parent",
        ] {
            stage.assert_denied(method, &json!({}), &[EPERM]);
        }
        for method in ["read_parent_environment", "see_parent_descriptor"] {
            stage.assert_denied(method, &json!({}), &[EACCES, EPERM]);
        }
    }
}

#[test]
fn what_is_denied_works_for_whoever_is_not_confined() {
    let stage = Stage::anything_readable();
    assert_eq!(unconfined("fork", &json!({})), 0);
    assert_eq!(unconfined("run", &path("/bin/true")), 0);
    assert_eq!(unconfined("execute_memory", &path("/bin/true")), 0);
    assert_eq!(unconfined("write_after_two_forks", &path(stage.outside("made"))), 0);
    assert!(stage.outside("made").exists());
    if !parent_is_another_users() {
        for method in ["signal_parent", "signal_parent_by_descriptor", "limit_parent"] {
            assert_eq!(unconfined(method, &json!({})), 0, "{method}");
        }
    }
}
