//! Names that may become names of files: ids, paths inside a workspace, outputs, environment variables.

/// Names that the layout of the cabinet needs for itself.
const RESERVED_TASKS: [&str; 2] = ["verify", "rejections"];
const RESERVED_EXECUTIONS: [&str; 1] = ["rejections"];

/// The longest name of an output, or of an input.
pub const LONGEST: usize = 240;
/// The longest path inside a workspace.
const LONGEST_PATH: usize = 4096;
/// How deep outputs may lie.
pub const DEEPEST: usize = 16;

/// Says whether a text is an id: lower-case letters, digits, `.`, `_` and `-`, up to 64, not beginning with a mark.
#[must_use]
pub fn is_id(text: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    text.len() <= 64
        && text.bytes().next().is_some_and(letter)
        && text.bytes().all(|byte| letter(byte) || matches!(byte, b'.' | b'_' | b'-'))
}

/// Says whether a text is the id of a task.
#[must_use]
pub fn is_task_id(text: &str) -> bool {
    is_id(text) && !RESERVED_TASKS.contains(&text)
}

/// Says whether a text is the id of an execution.
#[must_use]
pub fn is_exec_id(text: &str) -> bool {
    is_id(text) && !RESERVED_EXECUTIONS.contains(&text)
}

/// Says whether a text names an environment variable: upper-case letters, digits and `_`.
#[must_use]
pub fn is_variable(text: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_uppercase() || byte == b'_';
    text.len() <= LONGEST
        && text.bytes().next().is_some_and(letter)
        && text.bytes().all(|byte| letter(byte) || byte.is_ascii_digit())
}

/// Says whether a text is a path inside the workspace: relative, without `..`, each path in one spelling only.
#[must_use]
pub fn is_path(text: &str) -> bool {
    text == "."
        || (text.len() <= LONGEST_PATH
            && !text.starts_with("ro:")
            && !text.starts_with("rw:")
            && !text.chars().any(char::is_control)
            && segments(text))
}

/// Says whether a text is the name of an output: a relative path of ASCII letters, digits, `.`, `_` and `-`.
#[must_use]
pub fn is_output(text: &str) -> bool {
    let allowed =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-' | b'/');
    text.len() <= LONGEST
        && text.bytes().all(allowed)
        && segments(text)
        && text.split('/').count() <= DEEPEST
}

/// Says whether a text is the logical name of an input: printable ASCII, in parts like a relative path.
#[must_use]
pub fn is_input(text: &str) -> bool {
    text.len() <= LONGEST && text.bytes().all(|byte| matches!(byte, b' '..=b'~')) && segments(text)
}

/// Says whether a text is parts joined by `/`, none of which is empty or leads elsewhere.
fn segments(text: &str) -> bool {
    text.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_exactly_these() {
        let long = "a".repeat(64);
        for (text, id, path, output, input, variable) in [
            ("t1", true, true, true, true, false),
            (long.as_str(), true, true, true, true, false),
            ("a.b_c-d", true, true, true, true, false),
            ("PATH_1", false, true, true, true, true),
            ("_", false, true, true, true, true),
            ("1A", false, true, true, true, false),
            ("", false, false, false, false, false),
            (".", false, true, false, false, false),
            ("..", false, false, false, false, false),
            ("a/../b", false, false, false, false, false),
            ("/a", false, false, false, false, false),
            ("a/", false, false, false, false, false),
            ("a//b", false, false, false, false, false),
            ("./a", false, false, false, false, false),
            ("a/b", false, true, true, true, false),
            ("-a", false, true, true, true, false),
            ("a b", false, true, false, true, false),
            ("ä", false, true, false, false, false),
            ("a\n", false, false, false, false, false),
            ("a\0", false, false, false, false, false),
            ("rw:a", false, false, false, true, false),
        ] {
            let is =
                (is_id(text), is_path(text), is_output(text), is_input(text), is_variable(text));
            assert_eq!(is, (id, path, output, input, variable), "{text:?}");
        }
        assert!(!is_id(&"a".repeat(65)) && !is_output(&"a".repeat(241)));
        assert!(is_output(&["a"; 16].join("/")) && !is_output(&["a"; 17].join("/")));
    }

    #[test]
    fn names_of_the_layout_are_nobodys_ids() {
        assert!(!is_task_id("verify") && !is_task_id("rejections") && is_task_id("verify2"));
        assert!(!is_exec_id("rejections") && is_exec_id("verify"));
    }
}
