//! Keys, seals, and their rotation.
