//! Whether the log of one bundle begins with that of another.

use super::anchor::{self, head_holds};
use crate::json::Value;
use crate::key::PublicKey;
use crate::merkle;
use crate::signal::Finding;

/// The head of a bundle's log.
struct Head {
    log: String,
    size: u64,
    root: crate::digest::Digest,
}

/// Returns why the log of a bundle does not begin with that of an earlier one.
pub(super) fn check(bundle: &Value, earlier: &Value, key: Option<&PublicKey>) -> Vec<Finding> {
    let (now, then) = match (head(bundle, key), head(earlier, key)) {
        (Ok(now), Ok(then)) => (now, then),
        (now, then) => {
            let of = |which: &str, head: Result<Head, &str>| {
                head.err().map(|why| {
                    Finding::error("/signed_tree_head", format!("the head of {which} {why}"))
                })
            };
            return of("this bundle", now).into_iter().chain(of("the earlier one", then)).collect();
        }
    };
    if now.log != then.log {
        let message = format!("the bundles are of two logs: {} and {}", now.log, then.log);
        return vec![Finding::error("/signed_tree_head/log_id", message)];
    }
    if now.size == then.size && now.root == then.root {
        return Vec::new();
    }
    let proof = bundle.get("consistency");
    let number = |key: &str| u64::try_from(proof?.get(key)?.as_i64()?).ok();
    let hashes = proof
        .and_then(|proof| proof.get("proof")?.as_array())
        .and_then(|hashes| hashes.iter().map(anchor::hash).collect::<Option<Vec<_>>>());
    let holds = number("old_size") == Some(then.size)
        && number("new_size") == Some(now.size)
        && hashes.is_some_and(|hashes| {
            merkle::verify_consistency(then.size, now.size, &then.root, &now.root, &hashes)
        });
    if holds {
        return Vec::new();
    }
    let message = format!(
        "nothing shows that the log of {} leaves begins with the earlier one of {}: the bundle's proof begins at {}",
        now.size,
        then.size,
        number("old_size").map_or_else(|| "none".to_owned(), |size| format!("{size} leaves")),
    );
    vec![Finding::error("/consistency", message)]
}

/// Reads the head of a bundle's log, if the key signed it.
fn head(bundle: &Value, key: Option<&PublicKey>) -> Result<Head, &'static str> {
    let head = bundle.get("signed_tree_head").ok_or("is missing")?;
    let key = key.ok_or("cannot be verified without the key of the log")?;
    if !head_holds(head, key) {
        return Err("is not signed by the key of the log");
    }
    let size = head.get("tree_size").and_then(Value::as_i64).and_then(|it| u64::try_from(it).ok());
    let root = head.get("root_hash").and_then(anchor::hash);
    let log = head.get("log_id").and_then(Value::as_str).map(str::to_owned);
    match (log, size, root) {
        (Some(log), Some(size), Some(root)) => Ok(Head { log, size, root }),
        _ => Err("is malformed"),
    }
}
