//! What is logged: a level for everything, and levels for parts of the program.

use tracing_subscriber::filter::{LevelFilter, Targets};

use super::Error;

/// A longer text is a mistake.
const MAX_TEXT: usize = 1024;

/// Reads `info`, or `warn,nexus_router::store=debug`.
pub(super) fn parse(text: &str) -> Result<Targets, Error> {
    let bad = |problem: &str| {
        let text = text.chars().take(80).collect();
        Error::Level { text, problem: problem.to_owned() }
    };
    if text.len() > MAX_TEXT {
        return Err(bad("it is too long"));
    }
    // It writes lines for every request, and numbers of sessions; who wants them asks for them.
    let mut targets = Targets::new().with_target("rmcp", LevelFilter::OFF);
    for part in text.split(',').map(str::trim) {
        let (target, level) = match part.split_once('=') {
            Some((target, level)) => (Some(target.trim()), level.trim()),
            None => (None, part),
        };
        // A word that is no level would be taken for a part of the program, and silence the rest.
        let level = named(level).ok_or_else(|| bad(&format!("'{level}' is no level")))?;
        targets = match target {
            None => targets.with_default(level),
            Some("") => return Err(bad("a part has no name")),
            Some(target) => targets.with_target(target, level),
        };
    }
    Ok(targets)
}

fn named(level: &str) -> Option<LevelFilter> {
    // The library knows numbers too, which nobody can read.
    let is_word = level.bytes().all(|byte| byte.is_ascii_alphabetic());
    level.parse().ok().filter(|_| is_word && !level.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tracing::Level;

    #[test]
    fn levels_are_for_everything_or_for_a_part() {
        let targets = parse("warn, nexus_router::store=debug").unwrap();
        assert!(targets.would_enable("hyper", &Level::WARN));
        assert!(!targets.would_enable("hyper", &Level::INFO));
        assert!(targets.would_enable("nexus_router::store::writer", &Level::DEBUG));
        assert!(!parse("off").unwrap().would_enable("x", &Level::ERROR));
        assert!(parse("INFO").unwrap().would_enable("x", &Level::INFO));
        assert!(!parse("info").unwrap().would_enable("rmcp::service", &Level::ERROR));
        assert!(parse("info,rmcp=debug").unwrap().would_enable("rmcp::service", &Level::DEBUG));
    }

    #[test]
    fn a_text_that_says_no_level_is_refused() {
        for text in
            ["", "banana", "info,", "=info", "x=", "x=loud", "3", "info info", &"a".repeat(2000)]
        {
            let error = parse(text).unwrap_err();
            assert_eq!(error.code(), "LOG_LEVEL_INVALID", "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in ".{0,60}") {
            drop(parse(&text));
        }
    }
}
