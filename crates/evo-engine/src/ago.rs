//! How long ago something was, in words.

use jiff::Timestamp;

/// `12 min ago`; `at an unknown time` where a time cannot be read. Both are RFC 3339.
pub(super) fn ago(at: &str, now: &str) -> String {
    let (Ok(at), Ok(now)) = (at.parse::<Timestamp>(), now.parse::<Timestamp>()) else {
        return "at an unknown time".to_string();
    };
    // A clock that was set back since makes it just now.
    let seconds = (now.as_second() - at.as_second()).max(0);
    match seconds {
        0..60 => format!("{seconds} s ago"),
        60..3600 => format!("{} min ago", seconds / 60),
        3600..172_800 => format!("{} h ago", seconds / 3600),
        _ => format!("{} days ago", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::ago;

    #[test]
    fn times_are_said_in_words() {
        let check = |at: &str, expected: &str| assert_eq!(ago(at, "2026-01-10T12:00:00Z"), expected);
        check("2026-01-10T11:59:18Z", "42 s ago");
        check("2026-01-10T11:48:01Z", "11 min ago");
        check("2026-01-08T13:00:00Z", "47 h ago");
        check("2026-01-01T00:00:00Z", "9 days ago");
        check("2026-02-01T00:00:00Z", "0 s ago");
        check("yesterday", "at an unknown time");
    }
}
