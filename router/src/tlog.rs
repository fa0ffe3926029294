//! Transparency logs after C2SP: signed notes, checkpoints, tiles, proofs.
