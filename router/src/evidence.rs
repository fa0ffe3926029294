//! Sealed directories of executions: written whole, normalized, verified without trust.
