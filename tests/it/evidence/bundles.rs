//! Executions, rejections and verifications as directories.
