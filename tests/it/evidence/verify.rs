//! Verdicts about bundles that were changed in every way.
