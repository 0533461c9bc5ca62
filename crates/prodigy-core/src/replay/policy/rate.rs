//! The rate at which something may start.

use std::{fmt, num::NonZeroU32, str::FromStr, time::Duration};

use serde::{Serialize, Serializer};

use crate::duration;

/// A bound on how fast things begin: `6/min`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rate {
    /// The number of starts.
    pub count: NonZeroU32,
    /// In which time. Never zero.
    pub per: Duration,
}

impl Rate {
    /// Returns the time from one beginning to the next.
    pub fn interval(self) -> Duration {
        self.per / self.count.get()
    }
}

impl FromStr for Rate {
    /// One line for people.
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a rate; write for example `6/min` or `1/s`");
        let (count, per) = text.split_once('/').ok_or_else(wrong)?;
        let (count, per) = (count.trim(), per.trim());
        let is_number = !count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit());
        let count = count.parse().ok().filter(|_| is_number).ok_or_else(wrong)?;
        // `6/min` is 6 in one minute, `6/5m` is 6 in five.
        let per = if per.chars().all(char::is_alphabetic) && !per.is_empty() {
            duration::parse(&format!("1{per}"))?
        } else {
            duration::parse(per).map_err(|_| wrong())?
        };
        if per.is_zero() {
            return Err(wrong());
        }
        Ok(Self { count, per })
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [("s", 1), ("min", 60), ("h", 3_600), ("d", 86_400)];
        let unit = units.iter().find(|(_, seconds)| self.per == Duration::from_secs(*seconds));
        match unit {
            Some((unit, _)) => write!(f, "{}/{unit}", self.count),
            None => write!(f, "{}/{}", self.count, duration::format(self.per)),
        }
    }
}

impl Serialize for Rate {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_read_as_people_write_it() {
        let shown = ["6/min", "10/m", "1/s", "100/h", " 5 / 2m ", "3/ hour", "7/500ms", "1/d"]
            .map(|text| text.parse::<Rate>().unwrap().to_string());
        assert_eq!(shown, ["6/min", "10/min", "1/s", "100/h", "5/2m 00s", "3/h", "7/500ms", "1/d"]);
        for text in shown {
            assert_eq!(text.parse::<Rate>().unwrap().to_string(), text);
        }
        let interval = "6/min".parse::<Rate>().unwrap().interval();
        assert_eq!(interval, Duration::from_secs(10));
    }

    #[test]
    fn a_bad_rate_says_what_is_wrong() {
        let answers = [
            "",
            "6",
            "6/",
            "/min",
            "0/min",
            "-1/min",
            "+1/min",
            "6/0s",
            "6/fortnight",
            "x/min",
            "6/min/2",
        ]
        .map(|text| format!("{text:?}: {}", text.parse::<Rate>().unwrap_err()));
        insta::assert_snapshot!(answers.join("\n"), @r#"
        "": `` is not a rate; write for example `6/min` or `1/s`
        "6": `6` is not a rate; write for example `6/min` or `1/s`
        "6/": `6/` is not a rate; write for example `6/min` or `1/s`
        "/min": `/min` is not a rate; write for example `6/min` or `1/s`
        "0/min": `0/min` is not a rate; write for example `6/min` or `1/s`
        "-1/min": `-1/min` is not a rate; write for example `6/min` or `1/s`
        "+1/min": `+1/min` is not a rate; write for example `6/min` or `1/s`
        "6/0s": `6/0s` is not a rate; write for example `6/min` or `1/s`
        "6/fortnight": `fortnight` is not a unit of time; use `ms`, `s`, `m`, `h`, `d` or `w`
        "x/min": `x/min` is not a rate; write for example `6/min` or `1/s`
        "6/min/2": `6/min/2` is not a rate; write for example `6/min` or `1/s`
        "#);
    }
}
