//! The frozen roles: their exports, and how they may change.
