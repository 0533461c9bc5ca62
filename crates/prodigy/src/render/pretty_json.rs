//! JSON in lines, with nothing else changed.

/// Returns JSON with a line for each value; what stands in it is not changed.
pub(crate) fn pretty_json(text: &str) -> String {
    let mut result = String::new();
    let mut depth = 0_usize;
    let mut in_text = false;
    let mut escaped = false;
    let mut just_opened = false;
    for c in text.chars() {
        if in_text {
            result.push(c);
            in_text = escaped || c != '"';
            escaped = !escaped && c == '\\';
            continue;
        }
        if c.is_whitespace() {
            continue;
        }
        let closes = matches!(c, '}' | ']');
        if closes {
            depth = depth.saturating_sub(1);
        }
        if closes != just_opened {
            // A value begins, or a list that holds some ends.
            if just_opened || closes {
                result.push('\n');
                result.push_str(&"  ".repeat(depth));
            }
        }
        just_opened = matches!(c, '{' | '[');
        depth += usize::from(just_opened);
        in_text = c == '"';
        result.push(c);
        match c {
            ',' => {
                result.push('\n');
                result.push_str(&"  ".repeat(depth));
            }
            ':' => result.push(' '),
            _ => {}
        }
    }
    result.push('\n');
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_laid_out_and_not_changed() {
        let text = r#"{"a":1e400,"b":[],"c":{},"d":[1,{"e":"x\"}, y\\"}],"f":123456789012345678901234567890}"#;
        insta::assert_snapshot!(pretty_json(text), @r#"
        {
          "a": 1e400,
          "b": [],
          "c": {},
          "d": [
            1,
            {
              "e": "x\"}, y\\"
            }
          ],
          "f": 123456789012345678901234567890
        }
        "#);
        let value = serde_json::json!({"a": [1, [2, {}], {"b": "x:{}"}], "c": {}});
        assert_eq!(pretty_json(&value.to_string()), format!("{value:#}\n"));
        assert_eq!(pretty_json(&pretty_json(&value.to_string())), format!("{value:#}\n"));
    }
}
