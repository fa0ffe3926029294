//! The runs that a token sees: those that were started with it, or all.

use crate::scope::Scope;

/// The runs that a token sees. Administrators see all runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Visibility {
    /// Runs that were started with the token.
    #[default]
    Own,
    /// Runs of all callers.
    All,
}

impl Visibility {
    /// Every visibility.
    pub const ALL: [Self; 2] = [Self::Own, Self::All];

    /// Returns the name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::All => "all",
        }
    }

    /// Returns its meaning, in one sentence.
    #[must_use]
    pub const fn doc(self) -> &'static str {
        match self {
            Self::Own => "Sees the runs that were started with this token.",
            Self::All => "Sees the runs of all callers.",
        }
    }

    /// Returns the effective visibility of a token with a scope: administrators see all runs.
    #[must_use]
    pub fn effective(self, scope: Scope) -> Self {
        if scope.includes(Scope::Admin) { Self::All } else { self }
    }

    /// Finds a visibility by its name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|visibility| visibility.name() == name)
    }
}

impl std::fmt::Display for Visibility {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visibilities_are_found_by_name() {
        for visibility in Visibility::ALL {
            assert_eq!(Visibility::from_name(visibility.name()), Some(visibility));
            assert!(visibility.doc().ends_with('.'));
        }
        assert_eq!(Visibility::from_name("All"), None);
        assert_eq!(Visibility::default(), Visibility::Own);
    }
}
