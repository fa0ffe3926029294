//! What a token lets its bearer do: four scopes, each of which includes those before it.

/// What a caller may do. A higher scope includes the lower ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Looks at runs, adapters and tools, and changes nothing.
    Read,
    /// Also runs plans that are only tried, and cancels runs.
    Run,
    /// Also runs plans that take effect.
    Apply,
    /// Also changes the daemon itself.
    Admin,
}

impl Scope {
    /// Every scope, the lowest first.
    pub const ALL: [Self; 4] = [Self::Read, Self::Run, Self::Apply, Self::Admin];

    /// Returns the name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Run => "run",
            Self::Apply => "apply",
            Self::Admin => "admin",
        }
    }

    /// Returns what it lets a caller do, in one sentence.
    #[must_use]
    pub const fn doc(self) -> &'static str {
        match self {
            Self::Read => "Looks at runs, adapters and tools, and changes nothing.",
            Self::Run => "Also runs plans that are only tried, and cancels runs.",
            Self::Apply => "Also runs plans that take effect.",
            Self::Admin => "Also changes the daemon itself.",
        }
    }

    /// Finds a scope by its name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.name() == name)
    }

    /// Says whether this scope allows what needs another one.
    #[must_use]
    pub fn includes(self, needed: Self) -> bool {
        self >= needed
    }
}

impl std::fmt::Display for Scope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_are_in_order_and_found_by_name() {
        assert!(Scope::ALL.is_sorted());
        for scope in Scope::ALL {
            assert_eq!(Scope::from_name(scope.name()), Some(scope));
            assert!(scope.doc().ends_with('.'));
            assert!(Scope::Admin.includes(scope) && scope.includes(Scope::Read));
        }
        assert!(Scope::Apply.includes(Scope::Run) && !Scope::Run.includes(Scope::Apply));
        assert_eq!(Scope::from_name("Admin"), None);
    }
}
