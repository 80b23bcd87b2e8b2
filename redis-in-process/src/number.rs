//! Numbers as Redis reads and writes them.

use crate::reply::Refused;

const NO_INTEGER: Refused = Refused::Borrowed("ERR value is not an integer or out of range");
const NO_FLOAT: Refused = Refused::Borrowed("ERR value is not a valid float");

/// How many digits tell every double from its neighbours.
const DIGITS: i32 = 17;

/// An integer in its only form: no sign that is not needed, no leading zero, no space.
pub(crate) fn strict(text: &[u8]) -> Option<i64> {
    let number: i64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    let is_as_written = match text {
        [b'0'] => true,
        [b'-', first, ..] | [first, ..] => matches!(first, b'1'..=b'9'),
        [] => false,
    };
    is_as_written.then_some(number)
}

/// The same, of a command's argument.
pub(crate) fn integer(text: &[u8]) -> Result<i64, Refused> {
    strict(text).ok_or(NO_INTEGER)
}

/// A double of a command's argument.
pub(crate) fn double(text: &[u8]) -> Result<f64, Refused> {
    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse::<f64>().ok());
    number.filter(|number| !number.is_nan()).ok_or(NO_FLOAT)
}

/// `%.17g` of C.
pub(crate) fn precise(number: f64) -> String {
    if number.is_nan() {
        return if number.is_sign_negative() { "-nan" } else { "nan" }.into();
    }
    if number.is_infinite() {
        return if number < 0.0 { "-inf" } else { "inf" }.into();
    }
    let scientific = format!("{number:.*e}", (DIGITS - 1) as usize);
    let (mantissa, exponent) = scientific.split_once('e').expect("an exponent");
    let exponent: i32 = exponent.parse().expect("an exponent is an integer");
    if (-4..DIGITS).contains(&exponent) {
        let decimals = (DIGITS - 1 - exponent) as usize;
        return without_zeros(&format!("{number:.decimals$}")).into();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", without_zeros(mantissa), exponent.abs())
}

fn without_zeros(number: &str) -> &str {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number }
}

/// The conversion of C on x86-64: what does not fit is the least integer.
pub(crate) fn truncated(number: f64) -> i64 {
    let fits = (-(2_f64.powi(63))..2_f64.powi(63)).contains(&number);
    if fits { number as i64 } else { i64::MIN }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_are_written_as_by_c() {
        let written = [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-17.0, "-17"),
            (0.1, "0.10000000000000001"),
            (1e15, "1000000000000000"),
            (1e16, "10000000000000000"),
            (1e17, "1e+17"),
            (1.5e300, "1.5000000000000001e+300"),
            (1e-4, "0.0001"),
            (1e-5, "1.0000000000000001e-05"),
            (1_700_000_000_000.999, "1700000000000.999"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
        ];
        for (number, text) in written {
            assert_eq!(precise(number), text);
        }
    }

    #[test]
    fn integers_have_one_form() {
        for good in ["0", "7", "-7", "9223372036854775807", "-9223372036854775808"] {
            assert_eq!(
                strict(good.as_bytes()).map(|number| number.to_string()).as_deref(),
                Some(good)
            );
        }
        for bad in ["", "-", "-0", "+1", "01", " 1", "1 ", "1.0", "9223372036854775808", "ten"] {
            assert_eq!(strict(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn what_does_not_fit_is_the_least_integer() {
        assert_eq!(truncated(2.9), 2);
        assert_eq!(truncated(-2.9), -2);
        assert_eq!(truncated(1e300), i64::MIN);
        assert_eq!(truncated(f64::NAN), i64::MIN);
    }
}
