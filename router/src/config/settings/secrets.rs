//! Secrets of the configuration: the source of each, and the calls whose arguments may refer to it.

use crate::config::pattern::Pattern;
use crate::secret::Source;

/// Secret of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretEntry {
    /// Source of the value.
    pub source: Source,
    /// Calls whose arguments may refer to it. Without a binding only the configuration refers to it.
    pub binding: Option<SecretBinding>,
}

impl From<Source> for SecretEntry {
    fn from(source: Source) -> Self {
        Self { source, binding: None }
    }
}

/// Calls whose arguments may refer to a secret. Names of adapters and tools compare without case, those of tokens with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecretBinding {
    /// Patterns of adapter ids. An empty list binds the secret to no adapter.
    pub adapters: Vec<Pattern>,
    /// Patterns of tools. An empty list means every tool of the adapters.
    pub tools: Vec<Pattern>,
    /// Patterns of token names. An empty list means every caller.
    pub tokens: Vec<Pattern>,
}

impl SecretBinding {
    /// Reports whether the binding includes an adapter.
    #[must_use]
    pub fn has_adapter(&self, adapter_id: &str) -> bool {
        matches_any(&self.adapters, adapter_id)
    }

    /// Reports whether the binding includes a tool, under any of its names.
    #[must_use]
    pub fn has_tool<'n>(&self, mut names: impl Iterator<Item = &'n str>) -> bool {
        self.tools.is_empty() || names.any(|name| matches_any(&self.tools, name))
    }

    /// Reports whether the binding includes a token.
    #[must_use]
    pub fn has_token(&self, name: &str) -> bool {
        self.tokens.is_empty() || self.tokens.iter().any(|pattern| pattern.matches(name))
    }
}

fn matches_any(patterns: &[Pattern], name: &str) -> bool {
    patterns.iter().any(|pattern| pattern.matches_name(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(texts: &[&str]) -> Vec<Pattern> {
        texts.iter().filter_map(|text| Pattern::new(text)).collect()
    }

    #[test]
    fn compares_names_without_case_except_tokens() {
        let binding = SecretBinding {
            adapters: patterns(&["Shop", "mail-*"]),
            tools: patterns(&["orders.*"]),
            tokens: patterns(&["ci"]),
        };
        assert!(binding.has_adapter("shop") && binding.has_adapter("MAIL-1"));
        assert!(!binding.has_adapter("shop2") && !binding.has_adapter(""));
        assert!(binding.has_tool(["buy", "Orders.buy"].into_iter()));
        assert!(!binding.has_tool(["buy"].into_iter()) && !binding.has_tool([].into_iter()));
        assert!(binding.has_token("ci") && !binding.has_token("CI") && !binding.has_token("local"));
    }

    #[test]
    fn empty_lists_narrow_nothing_except_adapters() {
        let binding = SecretBinding::default();
        assert!(binding.has_tool([].into_iter()) && binding.has_token("anyone"));
        assert!(!binding.has_adapter("shop"));
    }
}
