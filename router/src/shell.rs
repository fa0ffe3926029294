//! Words of command lines, quoted so that a POSIX shell reads them as they are.

/// Returns a word quoted for a POSIX shell, if it needs quotes.
#[must_use]
pub(crate) fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+,:@%=".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shell_reads_quoted_words_unchanged() {
        for word in ["", "a", "/tmp/a b.db", "it's", "$HOME `id` \"x\" \\", "a*?[b]", "ä;&|<>!#"] {
            let script = format!("printf %s {}", quoted(word));
            let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), word, "{script}");
        }
    }

    #[test]
    fn odd_paths_are_quoted() {
        for (path, expected) in [
            ("/home/ada/.local/state/admin.token", "/home/ada/.local/state/admin.token"),
            ("/my data/x", "'/my data/x'"),
            ("/a$(b)", "'/a$(b)'"),
            ("/ada's", r"'/ada'\''s'"),
        ] {
            assert_eq!(quoted(path), expected);
        }
    }
}
