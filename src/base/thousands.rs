//! Whole numbers with separators between thousands, as people read them.

/// `1234567` as `1,234,567`.
#[must_use]
pub(crate) fn grouped(number: u128) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() * 4 / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}
