//! What differs between two revisions of an operation.

use std::collections::{HashMap, HashSet};

use super::super::document::{FailureMode, Operation, Retry};
use super::super::finding::below;
use super::walk::Walk;
use super::{Change, Class};

/// Adds everything that differs; `left` is how many pairs of schemas may still be compared.
pub(super) fn compare(
    name: &str,
    old: &Operation,
    new: &Operation,
    left: &mut usize,
    changes: &mut Vec<Change>,
) {
    let place = below("/operations", name);
    let mut tell = Tell { name, place: &place, changes };
    let changed = |what: &str| format!("the {what} changed");
    if old.description != new.description {
        tell.add(Class::Patch, "description", changed("description"));
    }
    if old.examples != new.examples {
        tell.add(Class::Patch, "examples", changed("examples"));
    }
    if old.fault_examples != new.fault_examples {
        tell.add(Class::Patch, "fault_examples", changed("fault_examples"));
    }
    for (member, was, is) in [("tool", &old.tool, &new.tool), ("method", &old.method, &new.method)]
    {
        if was != is {
            tell.add(Class::Major, member, format!("{member} {was} became {is}"));
        }
    }
    if old.timeout != new.timeout {
        let (was, is) = (old.timeout.as_millis(), new.timeout.as_millis());
        let class = if is < was { Class::Major } else { Class::Minor };
        tell.add(class, "timeout_ms", format!("timeout_ms {was} became {is}"));
    }
    if old.retry != new.retry {
        let said = |retry: &Retry| {
            format!("{} attempts, {} to {} ms apart", retry.attempts, retry.base_ms, retry.max_ms)
        };
        let message = format!("retry: {} became {}", said(&old.retry), said(&new.retry));
        tell.add(Class::Minor, "retry", message);
    }
    for (member, was, is) in [
        ("idempotent", old.idempotent, new.idempotent),
        ("read_only", old.read_only, new.read_only),
    ] {
        // Either way: policy and recovery go by what is promised here.
        if was != is {
            tell.add(Class::Major, member, format!("{member} {was} became {is}"));
        }
    }
    failure_modes(&old.failure_modes, &new.failure_modes, &mut tell);
    volatile(&old.volatile, &new.volatile, &mut tell);
    for (member, was, is, output) in [
        ("input_schema", &old.input_schema, &new.input_schema, false),
        ("output_schema", &old.output_schema, &new.output_schema, true),
    ] {
        let (found, steps) = Walk::new(was, is, output, *left).run(&below(&place, member));
        *left = left.saturating_sub(steps);
        let of = |change| Change { operation: Some(name.to_owned()), ..change };
        tell.changes.extend(found.into_iter().map(of));
    }
}

struct Tell<'a> {
    name: &'a str,
    place: &'a str,
    changes: &'a mut Vec<Change>,
}

impl Tell<'_> {
    fn add(&mut self, class: Class, member: &str, message: String) {
        let pointer = below(self.place, member);
        let operation = Some(self.name.to_owned());
        self.changes.push(Change { class, pointer, message, operation });
    }
}

fn failure_modes(old: &[FailureMode], new: &[FailureMode], tell: &mut Tell<'_>) {
    const MEMBER: &str = "failure_modes";
    let by_code = |modes| -> HashMap<&str, &FailureMode> {
        <[FailureMode]>::iter(modes).map(|mode| (mode.code.as_str(), mode)).collect()
    };
    let (before, now) = (by_code(old), by_code(new));
    for mode in new {
        let code = &mode.code;
        let Some(was) = before.get(code.as_str()) else {
            tell.add(Class::Minor, MEMBER, format!("failure mode {code} is new"));
            continue;
        };
        if was.description != mode.description {
            tell.add(Class::Patch, MEMBER, format!("{code}: the description changed"));
        }
        if was.severity != mode.severity {
            let (was, is) = (was.severity.name(), mode.severity.name());
            tell.add(Class::Minor, MEMBER, format!("{code}: severity {was} became {is}"));
        }
        if was.halts != mode.halts {
            // Whoever went on so far has to stop now.
            let class = if mode.halts { Class::Major } else { Class::Minor };
            tell.add(class, MEMBER, format!("{code}: halts {} became {}", was.halts, mode.halts));
        }
    }
    for mode in old.iter().filter(|was| !now.contains_key(was.code.as_str())) {
        tell.add(Class::Minor, MEMBER, format!("failure mode {} is gone", mode.code));
    }
}

fn volatile(old: &[String], new: &[String], tell: &mut Tell<'_>) {
    let set = |pointers| <[String]>::iter(pointers).collect::<HashSet<_>>();
    let (before, now) = (set(old), set(new));
    for pointer in new.iter().filter(|pointer| !before.contains(pointer)) {
        tell.add(Class::Major, "volatile", format!("the output at {pointer} may differ now"));
    }
    for pointer in old.iter().filter(|pointer| !now.contains(pointer)) {
        tell.add(Class::Minor, "volatile", format!("the output at {pointer} no longer differs"));
    }
}
