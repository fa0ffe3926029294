//! `nexus-router evidence keys`.
