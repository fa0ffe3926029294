//! What the engine seals: steps that are carried out in a role, and whole runs.
