//! The time of a call as text: ISO 8601, UTC, microseconds.

use std::time::{SystemTime, UNIX_EPOCH};

const SECONDS_PER_DAY: u64 = 86_400;

/// The days of 400 years, after which the calendar repeats.
const DAYS_PER_ERA: u64 = 146_097;

/// The days from 0000-03-01 to 1970-01-01.
const DAYS_BEFORE_EPOCH: u64 = 719_468;

/// Returns a time such as `2024-02-29T23:59:59.000001+00:00`. A clock before 1970 shows as 1970.
pub(crate) fn iso(time: SystemTime) -> String {
    let since_epoch = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (year, month, day) = civil(since_epoch.as_secs() / SECONDS_PER_DAY);
    let second = since_epoch.as_secs() % SECONDS_PER_DAY;
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let micros = since_epoch.subsec_micros();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}+00:00")
}

/// Returns year, month and day of a day counted from 1970-01-01.
///
/// Years begin in March here: the leap day is then the last day of a year, and the months before it
/// have 153 days in every five.
fn civil(days_since_epoch: u64) -> (u64, u64, u64) {
    let days = days_since_epoch + DAYS_BEFORE_EPOCH;
    let (era, day_of_era) = (days / DAYS_PER_ERA, days % DAYS_PER_ERA);
    let leap_days = day_of_era / 1_460 - day_of_era / 36_524 + day_of_era / (DAYS_PER_ERA - 1);
    let year_of_era = (day_of_era - leap_days) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let year = 400 * era + year_of_era;
    if month_from_march < 10 {
        (year, month_from_march + 3, day)
    } else {
        (year + 1, month_from_march - 9, day)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn known_moments_are_written_as_known() {
        for (seconds, micros, text) in [
            (0, 0, "1970-01-01T00:00:00.000000+00:00"),
            (946_684_799, 999_999, "1999-12-31T23:59:59.999999+00:00"),
            (951_782_400, 1, "2000-02-29T00:00:00.000001+00:00"),
            (951_868_800, 0, "2000-03-01T00:00:00.000000+00:00"),
            (1_709_251_199, 120_000, "2024-02-29T23:59:59.120000+00:00"),
            (4_107_542_400, 0, "2100-03-01T00:00:00.000000+00:00"),
            (253_402_300_799, 0, "9999-12-31T23:59:59.000000+00:00"),
        ] {
            let time = UNIX_EPOCH + Duration::from_secs(seconds) + Duration::from_micros(micros);
            assert_eq!(iso(time), text);
        }
    }

    #[test]
    fn clock_before_the_epoch_shows_the_epoch() {
        let time = UNIX_EPOCH - Duration::from_secs(5);
        assert_eq!(iso(time), "1970-01-01T00:00:00.000000+00:00");
    }

    #[test]
    fn days_follow_the_calendar_for_five_centuries() {
        let mut day = 0;
        for year in 1970..2470 {
            let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let february = if leap { 29 } else { 28 };
            let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
            for (month, length) in (1..).zip(lengths) {
                for date in 1..=length {
                    assert_eq!(civil(day), (year, month, date));
                    day += 1;
                }
            }
        }
    }
}
