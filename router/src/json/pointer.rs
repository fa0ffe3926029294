//! Segments of JSON pointers.

/// Returns the segment of a JSON pointer that names a member, after RFC 6901.
pub(crate) fn pointer_segment(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_tilde_and_slash() {
        assert_eq!(pointer_segment("a/b~c~1"), "a~1b~0c~01");
        assert_eq!(pointer_segment(""), "");
    }
}
