//! Writing contracts: scaffold, lint, rehash, bump, diff.
