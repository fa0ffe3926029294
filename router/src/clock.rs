//! The time: milliseconds since 1970, and its text in events.

use std::fmt;

/// A moment, to the millisecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// Makes a moment from milliseconds since 1970.
    #[must_use]
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Returns the milliseconds since 1970.
    #[must_use]
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// Reads an RFC 3339 text, whatever its offset and precision.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        text.parse::<jiff::Timestamp>().ok().map(|moment| Self(moment.as_millisecond()))
    }
}

impl fmt::Display for Timestamp {
    /// Writes UTC with milliseconds, such as `2026-11-16T00:02:44.060Z`. Texts of this form sort as the
    /// moments do.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(moment) => write!(f, "{moment:.3}"),
            Err(_) => f.write_str("9999-12-31T23:59:59.999Z"),
        }
    }
}

/// Where the time comes from. A fixed clock makes runs repeatable in tests.
#[derive(Clone, Copy, Debug, Default)]
pub enum Clock {
    /// The machine's clock.
    #[default]
    System,
    /// Always the same moment.
    Fixed(Timestamp),
}

impl Clock {
    /// Returns the present moment.
    #[must_use]
    pub fn now(self) -> Timestamp {
        match self {
            Self::System => Timestamp(jiff::Timestamp::now().as_millisecond()),
            Self::Fixed(moment) => moment,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_utc_with_milliseconds() {
        let moment = Timestamp::parse("2026-11-16T02:02:44.0601+02:00").unwrap();
        assert_eq!(moment.to_string(), "2026-11-16T00:02:44.060Z");
        assert_eq!(Timestamp::from_millis(0).to_string(), "1970-01-01T00:00:00.000Z");
        assert_eq!(Timestamp::parse("banana"), None);
        assert_eq!(Timestamp::from_millis(i64::MAX).to_string(), "9999-12-31T23:59:59.999Z");
    }
}
