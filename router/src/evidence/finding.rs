//! What is wrong with a document: a stable reason, the place, and words for people.

use crate::python_text;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The JSON pointer of the place.
    pub pointer: String,
    /// A stable text such as `missing_key:ok`, fit to be the reason of a rejection.
    pub reason: String,
    /// What is wrong and what would be right.
    pub message: String,
}

impl Finding {
    /// Makes a finding from a word, a detail that may be foreign, the place, and the message.
    #[must_use]
    pub fn new(
        word: &str,
        detail: &str,
        pointer: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        let reason =
            if detail.is_empty() { word.to_owned() } else { format!("{word}:{}", shown(detail)) };
        Self { pointer: pointer.into(), reason, message: message.into() }
    }
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (at \"{}\"): {}", self.reason, shown(&self.pointer), self.message)
    }
}

/// Everything that is wrong with a document, up to a bound.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    list: Vec<Finding>,
    /// How many more there were.
    more: usize,
}

/// More findings than this tell a reader nothing more, and a hostile document has millions.
const MOST: usize = 100;

impl Findings {
    /// Adds one.
    pub fn push(&mut self, finding: Finding) {
        if self.list.len() < MOST {
            self.list.push(finding);
        } else {
            self.more += 1;
        }
    }

    /// Returns those that are kept; the first hundred.
    #[must_use]
    pub fn list(&self) -> &[Finding] {
        &self.list
    }

    /// Returns how many there were altogether.
    #[must_use]
    pub fn count(&self) -> usize {
        self.list.len() + self.more
    }

    /// Says whether nothing was found.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns the reason of the first one, which is the reason of the refusal.
    #[must_use]
    pub fn reason(&self) -> &str {
        self.list.first().map_or("", |finding| finding.reason.as_str())
    }

    /// Returns the reasons in order, with `more_findings:<count>` at the end when some were left out.
    #[must_use]
    pub fn reasons(&self) -> Vec<String> {
        let mut reasons: Vec<String> =
            self.list.iter().map(|finding| finding.reason.clone()).collect();
        if self.more > 0 {
            reasons.push(format!("more_findings:{}", self.more));
        }
        reasons
    }

    /// Returns `value` if nothing was found.
    pub(super) fn or<T>(self, value: Option<T>) -> Result<T, Self> {
        match value {
            Some(value) if self.is_empty() => Ok(value),
            _ => Err(self),
        }
    }
}

impl From<Finding> for Findings {
    fn from(finding: Finding) -> Self {
        Self { list: vec![finding], more: 0 }
    }
}

impl std::fmt::Display for Findings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, finding) in self.list.iter().enumerate() {
            write!(f, "{}{finding}", if index > 0 { "; " } else { "" })?;
        }
        if self.more > 0 {
            write!(f, "; and {} more", self.more)?;
        }
        Ok(())
    }
}

impl std::error::Error for Findings {}

/// Shows foreign text on one line and cut, so that a reason stays short whatever was sent.
pub(super) fn shown(text: &str) -> String {
    const LONGEST: usize = 80;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => python_text::visible(&text[..end]) + "...",
        None => python_text::visible(text),
    }
}

/// Returns the pointer of a member or an item.
pub(super) fn below(place: &str, step: impl std::fmt::Display) -> String {
    format!("{place}/{}", crate::json::pointer_segment(&step.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_details_are_cut_and_made_visible() {
        let finding = Finding::new("forbidden_key", &"\u{1b}".repeat(100), "/a", "no");
        assert_eq!(finding.reason, format!("forbidden_key:{}...", "\\x1b".repeat(80)));
        assert_eq!(Finding::new("not_json", "", "", "x").reason, "not_json");
        assert_eq!(below("/a", "b/c~"), "/a/b~1c~0");
    }

    #[test]
    fn a_million_findings_are_counted_and_not_kept() {
        let mut findings = Findings::default();
        assert!(findings.is_empty() && findings.reason().is_empty());
        for index in 0..1_000_000 {
            findings.push(Finding::new("x", &index.to_string(), "", "y"));
        }
        assert_eq!((findings.count(), findings.list().len()), (1_000_000, 100));
        assert_eq!(findings.reason(), "x:0");
        assert_eq!(findings.reasons().last().unwrap(), "more_findings:999900");
        assert!(findings.to_string().ends_with("; and 999900 more"));
    }
}
