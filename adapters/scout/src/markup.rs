//! Takes the markup out of texts: what is left is what a reader sees.

/// Returns a Markdown text without its markup.
pub(crate) fn from_markdown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut fenced = false;
    for line in text.lines() {
        let trimmed = line.trim_start();
        if trimmed.starts_with("```") || trimmed.starts_with("~~~") {
            fenced = !fenced;
            continue;
        }
        if fenced {
            out.push_str(line);
        } else if !is_rule(trimmed) {
            out.push_str(&inline(without_marker(trimmed)));
        }
        out.push('\n');
    }
    out.trim_end().to_owned()
}

/// Says whether a line is only there to be drawn.
fn is_rule(line: &str) -> bool {
    let bare: String = line.chars().filter(|one| !one.is_whitespace()).collect();
    let drawn = |of: char| bare.len() >= 3 && bare.chars().all(|one| one == of);
    drawn('-') || drawn('*') || drawn('_') || drawn('=')
}

/// Removes the marks of headings, quotes and lists from the beginning of a line.
fn without_marker(line: &str) -> &str {
    let mut line = line;
    while let Some(rest) = line.strip_prefix('>') {
        line = rest.trim_start();
    }
    let heading = line.trim_start_matches('#');
    if heading.len() < line.len() && heading.starts_with(' ') {
        return heading.trim().trim_end_matches('#').trim_end();
    }
    for bullet in ["- ", "* ", "+ "] {
        if let Some(rest) = line.strip_prefix(bullet) {
            return rest.trim_start();
        }
    }
    line
}

/// Removes emphasis, code marks and the targets of links.
fn inline(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find(['*', '`', '[', '!', '\\']) {
        let (before, found) = rest.split_at(at);
        out.push_str(before);
        let image = found.strip_prefix('!').filter(|after| after.starts_with('['));
        if let Some((text, after)) = image.or(Some(found)).and_then(link) {
            out.push_str(&inline(text));
            rest = after;
            continue;
        }
        let mut chars = found.chars();
        match (chars.next(), chars.clone().next()) {
            (Some('\\'), Some(escaped)) if escaped.is_ascii_punctuation() => {
                out.push(escaped);
                chars.next();
            }
            (Some('*' | '`'), _) => {}
            (Some(other), _) => out.push(other),
            (None, _) => {}
        }
        rest = chars.as_str();
    }
    out.push_str(rest);
    out
}

/// Splits a link at the beginning of a text: its words, and what follows it.
fn link(text: &str) -> Option<(&str, &str)> {
    let (words, after) = text.strip_prefix('[')?.split_once("](")?;
    let (_, after) = after.split_once(')')?;
    (!words.contains('[')).then_some((words, after))
}

/// Returns an HTML text without tags, comments, scripts and styles, with the usual entities read.
pub(crate) fn from_html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, tag)) = rest.split_once('<') {
        out.push_str(before);
        if let Some(comment) = tag.strip_prefix("!--") {
            rest = comment.split_once("-->").map_or("", |(_, after)| after);
            continue;
        }
        let Some((inside, after)) = tag.split_once('>') else {
            // What is never closed is no tag.
            out.push('<');
            rest = tag;
            continue;
        };
        let name = inside.trim_start_matches('/').split([' ', '/', '\n', '\t']).next();
        let name = name.unwrap_or_default().to_ascii_lowercase();
        rest = after;
        match name.as_str() {
            "script" | "style" if !inside.starts_with('/') => {
                let end = format!("</{name}");
                let at = after.to_ascii_lowercase().find(&end);
                rest = at.map_or("", |at| &after[at..]);
            }
            "p" | "div" | "br" | "li" | "tr" | "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                out.push('\n');
            }
            _ => {}
        }
    }
    out.push_str(rest);
    let read = [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#39;", "'"),
        ("&nbsp;", " "),
        ("&amp;", "&"),
    ];
    let text = read.iter().fold(out, |text, (name, mark)| text.replace(name, mark));
    let lines: Vec<String> =
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    let mut kept: Vec<&str> = Vec::with_capacity(lines.len());
    for line in &lines {
        if !(line.is_empty() && kept.last().is_none_or(|last| last.is_empty())) {
            kept.push(line);
        }
    }
    kept.join("\n").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_leaves_what_a_reader_sees() {
        for (given, seen) in [
            ("# Title #\n\ntext", "Title\n\ntext"),
            ("- one\n* two\n+ three", "one\ntwo\nthree"),
            ("> > quoted **very** `code`", "quoted very code"),
            ("[words](http://x/y) and ![a *b*](i.png)", "words and a b"),
            ("a \\* b [no link] c!", "a * b [no link] c!"),
            ("```rust\nlet *a = 1;\n```\nafter", "let *a = 1;\nafter"),
            ("above\n---\nbelow", "above\n\nbelow"),
            ("#nothing", "#nothing"),
            ("", ""),
        ] {
            assert_eq!(from_markdown(given), seen, "{given:?}");
        }
    }

    #[test]
    fn html_leaves_what_a_reader_sees() {
        for (given, seen) in [
            ("<p>One <b>two</b></p><p>three&amp;four</p>", "One two\n\nthree&four"),
            ("a<script>alert('<b>')</script>b", "ab"),
            ("<STYLE>p{}</STYLE>x<!-- y -->z", "xz"),
            ("1 < 2", "1 < 2"),
            ("&amp;lt;", "&lt;"),
            ("<script>never ends", ""),
        ] {
            assert_eq!(from_html(given), seen, "{given:?}");
        }
    }
}
