//! Foreign texts in Markdown: whatever they say, they add no line, no cell, no markup and no HTML.

use crate::python_text::visible;

/// Returns a text in which nothing is Markdown or HTML; `-` if there is no text.
///
/// A bar becomes an entity: renderers disagree on what a backslash before it means in a table.
pub(crate) fn escaped(text: &str) -> String {
    if text.trim().is_empty() {
        return "-".to_owned();
    }
    let text = visible(text);
    let mut out = String::with_capacity(text.len());
    let mut before = ' ';
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let inside_word =
            before.is_alphanumeric() && rest.peek().is_some_and(|next| next.is_alphanumeric());
        let special = match c {
            '\\' | '`' | '*' | '[' | ']' | '<' | '>' | '#' | '~' | '&' => true,
            '_' => !inside_word,
            _ => false,
        };
        if special {
            out.push('\\');
        }
        if c == '|' {
            out.push_str("&#124;");
        } else {
            out.push(c);
        }
        before = c;
    }
    out
}

/// Returns a text as a paragraph: it can begin neither a list nor a line, nor be code for being indented.
pub(crate) fn paragraph(text: &str) -> String {
    let text = escaped(text.trim());
    let number = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (digits, rest) = text.split_at(number);
    let marker: &[char] = if digits.is_empty() { &['-', '+', '='] } else { &['.', ')'] };
    let escape = if rest.starts_with(marker) { "\\" } else { "" };
    format!("{digits}{escape}{rest}")
}

/// Returns a text as a code span; `-` if there is no text.
pub(crate) fn code(text: &str) -> String {
    if text.trim().is_empty() {
        return "-".to_owned();
    }
    let text = visible(text);
    let ticks = "`".repeat(longest_run(&text) + 1);
    let at_edge = |c: char| c == '`' || c == ' ';
    let pad = if text.starts_with(at_edge) || text.ends_with(at_edge) { " " } else { "" };
    format!("{ticks}{pad}{text}{pad}{ticks}")
}

/// Returns a text as code for a table, where a bar ends the cell even within a code span.
pub(crate) fn code_cell(text: &str) -> String {
    if text.contains('|') { format!("<code>{}</code>", escaped(text)) } else { code(text) }
}

/// Returns a code block that nothing in it can end.
pub(crate) fn fenced(language: &str, body: &str) -> String {
    let ticks = "`".repeat((longest_run(body) + 1).max(3));
    format!("{ticks}{language}\n{body}\n{ticks}")
}

/// Returns the length of the longest run of backticks.
fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_begin_nothing_else() {
        for (text, expected) in [
            ("plain - text 1. x", "plain - text 1. x"),
            ("- item", r"\- item"),
            ("---", r"\---"),
            ("+ item", r"\+ item"),
            ("1. item", r"1\. item"),
            ("23) item", r"23\) item"),
            ("2026 was", "2026 was"),
            ("    code", "code"),
            ("# head\n> quote", r"\# head\\n\> quote"),
            (" ", r"\-"),
        ] {
            assert_eq!(paragraph(text), expected, "{text}");
        }
    }

    #[test]
    fn code_ends_where_it_should() {
        assert_eq!(code("a``b"), "```a``b```");
        assert_eq!(code("`a"), "`` `a ``");
        assert_eq!(code_cell("a|<b>"), r"<code>a&#124;\<b\></code>");
        assert_eq!(fenced("json", "```"), "````json\n```\n````");
    }
}
