//! Bundles that were made to hurt whoever looks at them: each has a verdict with a reason, in bounded memory and time.

