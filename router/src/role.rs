//! Roles and the classes of actions that each may carry out: frozen tables, never configuration.

/// A fixed partition of what may be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// Researches and retrieves; changes nothing.
    Scout,
    /// Executes within its workspace.
    Envoy,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 2] = [Self::Scout, Self::Envoy];

    /// Returns the name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scout => "scout",
            Self::Envoy => "envoy",
        }
    }

    /// Finds a role by its name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.name() == name)
    }
}
