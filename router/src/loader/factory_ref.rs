//! The factory ref `module:function`.

use std::fmt;
use std::path::Path;

use super::error::{AdapterLoadError, Reason};

/// A reference to a factory: a module (or the path of a library file) and a function.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FactoryRef {
    text: String,
    colon: usize,
}

impl FactoryRef {
    /// Reads a ref: split at the last colon, both parts non-empty.
    ///
    /// # Errors
    /// [`Reason::InvalidFactoryRef`].
    pub fn parse(text: &str) -> Result<Self, AdapterLoadError> {
        let invalid = |problem: &str| {
            AdapterLoadError::new(
                text,
                Reason::InvalidFactoryRef,
                format!("Invalid factory_ref format: '{text}'. {problem}"),
            )
            .with_hint("write module:function, such as nexus_router_adapter_http:create_adapter")
        };
        let Some(colon) = text.rfind(':') else {
            return Err(invalid("Expected 'module:function'."));
        };
        let (module, function) = (&text[..colon], &text[colon + 1..]);
        if module.is_empty() || function.is_empty() {
            return Err(invalid("Both module and function must be non-empty."));
        }
        if text.contains('\0') || text.len() > 4096 {
            return Err(invalid("It must be shorter than 4096 bytes and contain no NUL."));
        }
        if !is_identifier(function) {
            return Err(invalid("The function must be an identifier ([A-Za-z_][A-Za-z0-9_]*)."));
        }
        Ok(Self { text: text.to_owned(), colon })
    }

    /// Makes the ref of a function in a module.
    #[must_use]
    pub fn new(module: &str, function: &str) -> Self {
        Self { text: format!("{module}:{function}"), colon: module.len() }
    }

    /// Returns the part before the last colon.
    #[must_use]
    pub fn module(&self) -> &str {
        &self.text[..self.colon]
    }

    /// Returns the part after the last colon.
    #[must_use]
    pub fn function(&self) -> &str {
        &self.text[self.colon + 1..]
    }

    /// Returns the library file, when the module is a path instead of a name.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        let module = self.module();
        let is_path = module.contains(std::path::MAIN_SEPARATOR)
            || Path::new(module).extension().is_some_and(|e| e == std::env::consts::DLL_EXTENSION);
        is_path.then(|| Path::new(module))
    }

    /// Returns the whole text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for FactoryRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn is_identifier(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn last_colon_splits() {
        let parsed = FactoryRef::parse("a:b:c").unwrap();
        assert_eq!((parsed.module(), parsed.function()), ("a:b", "c"));
        assert_eq!(parsed.file(), None);
        let path = FactoryRef::parse("./target/libx.so:make").unwrap();
        assert_eq!(path.file(), Some(Path::new("./target/libx.so")));
    }

    #[test]
    fn malformed_refs_are_refused() {
        for (text, problem) in [
            ("nocolon", "Expected 'module:function'."),
            (":f", "Both module and function must be non-empty."),
            ("m:", "Both module and function must be non-empty."),
            (":", "Both module and function must be non-empty."),
            ("m:a-b", "The function must be an identifier ([A-Za-z_][A-Za-z0-9_]*)."),
            ("m\0:f", "It must be shorter than 4096 bytes and contain no NUL."),
        ] {
            let error = FactoryRef::parse(text).unwrap_err();
            assert_eq!(error.reason(), Reason::InvalidFactoryRef);
            assert!(error.to_string().ends_with(problem), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_split_or_refused(text in ".{0,60}") {
            if let Ok(parsed) = FactoryRef::parse(&text) {
                prop_assert_eq!(format!("{}:{}", parsed.module(), parsed.function()), text);
            }
        }
    }
}
