//! Attestations: DSSE envelopes around in-toto statements.
