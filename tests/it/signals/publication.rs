//! Publishing contracts: attest, sign, manifests, pins.
