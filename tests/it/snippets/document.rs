//! Code blocks of a Markdown document, and what is made of them.

use std::fmt::Write as _;

/// Document with its code blocks.
pub struct Document {
    pub name: String,
    pub blocks: Vec<Block>,
}

/// Fenced code block.
#[derive(Debug, PartialEq, Eq)]
pub struct Block {
    pub language: String,
    /// Line of its fence, from 1.
    pub line: usize,
    pub text: String,
    pub marker: Option<Marker>,
}

/// HTML comment in the line before a block.
#[derive(Debug, PartialEq, Eq)]
pub enum Marker {
    /// The block goes on where the one before it ended.
    Continues,
    /// The block is only a part of an example, for this reason.
    Fragment(String),
}

impl Marker {
    fn read(line: &str) -> Option<Self> {
        let comment = line.trim().strip_prefix("<!--")?.strip_suffix("-->")?.trim();
        match comment.split_once(':') {
            None if comment == "continues" => Some(Self::Continues),
            Some(("fragment", reason)) => Some(Self::Fragment(reason.trim().to_owned())),
            _ => None,
        }
    }
}

impl Document {
    pub fn read(name: &str, text: &str) -> Self {
        let mut blocks = Vec::new();
        let mut before = "";
        let mut lines = text.lines().enumerate();
        while let Some((number, line)) = lines.next() {
            let fence_end = line.trim_start().find(|c| c != '`').unwrap_or(line.trim_start().len());
            let (fence, language) = line.trim_start().split_at(fence_end);
            if fence.len() >= 3 {
                let inside = lines.by_ref().map(|(_, line)| line);
                let inside: Vec<&str> = inside.take_while(|line| line.trim() != fence).collect();
                blocks.push(Block {
                    language: language.trim().to_owned(),
                    line: number + 1,
                    text: inside.join("\n") + "\n",
                    marker: Marker::read(before),
                });
            }
            before = line;
        }
        Self { name: name.to_owned(), blocks }
    }

    /// Returns its Rust examples: blocks with those that continue them.
    fn rust_examples(&self) -> Vec<String> {
        let mut examples: Vec<String> = Vec::new();
        for block in self.blocks.iter().filter(|block| block.language == "rust") {
            match (&block.marker, examples.last_mut()) {
                (Some(Marker::Fragment(_)), _) => {}
                (Some(Marker::Continues), Some(last)) => last.push_str(&block.text),
                (Some(Marker::Continues), None) => panic!("{}: nothing to continue", self.name),
                (None, _) => examples.push(block.text.clone()),
            }
        }
        examples
    }
}

/// Returns the Rust examples of all documents as one source file.
pub fn compiled_source(documents: &[Document]) -> String {
    let (mut table, mut functions) = (String::new(), String::new());
    for document in documents {
        for (index, example) in document.rust_examples().iter().enumerate() {
            let letter =
                |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
            let name: String = document.name.chars().map(letter).collect();
            let name = format!("{name}_{}", index + 1);
            writeln!(table, "    {name},").unwrap();
            write!(functions, "\nfn {name}() -> Outcome {{\n{example}Ok(())\n}}\n").unwrap();
        }
    }
    format!(
        "//! The Rust examples of the documents, written by `snippets.rs`: change the documents instead.\n\
         #![allow(unused_variables, clippy::all, clippy::pedantic, reason = \"examples are for readers\")]\n\n\
         pub type Outcome = Result<(), Box<dyn std::error::Error>>;\n\n\
         /// Every example. They are compiled and not run.\n\
         pub const EXAMPLES: &[fn() -> Outcome] = &[\n{table}];\n{functions}"
    )
}

/// Returns the commands of this program in a block of shell, without others that stand in their line.
pub fn commands(text: &str) -> Vec<String> {
    let joined = text.replace("\\\n", " ");
    let lines = joined.lines().flat_map(|line| line.split(" && ")).map(str::trim);
    let own = |line: &&str| {
        line.split_whitespace().next().is_some_and(|word| word.ends_with("nexus-router"))
    };
    let plain = |line: &str| line.replacen("target/release/nexus-router", "nexus-router", 1);
    lines.filter(own).map(|line| plain(alone(line))).collect()
}

/// Returns the first command of a line, without redirections and comments.
pub fn alone(line: &str) -> &str {
    let (mut quote, mut before) = (None, ' ');
    for (at, character) in line.char_indices() {
        match (quote, character) {
            (None, '\'' | '"') => quote = Some(character),
            (Some(open), _) if open == character => quote = None,
            (None, '|' | '&' | ';' | '<' | '>') => return line[..at].trim_end(),
            (None, '#') if before == ' ' => return line[..at].trim_end(),
            _ => {}
        }
        before = character;
    }
    line.trim_end()
}

#[test]
fn blocks_are_read_with_their_markers() {
    let text = "a\n```rust\nlet x = 1;\n```\n<!-- continues -->\n```rust\nlet y = x;\n```\n\
                <!-- fragment: it shows one line -->\n````json\n```\n````\n";
    let document = Document::read("d", text);
    let shown: Vec<(&str, usize)> =
        document.blocks.iter().map(|block| (block.language.as_str(), block.line)).collect();
    assert_eq!(shown, [("rust", 2), ("rust", 6), ("json", 10)]);
    assert_eq!(document.blocks[1].marker, Some(Marker::Continues));
    let reason = "it shows one line".to_owned();
    assert_eq!(document.blocks[2].marker, Some(Marker::Fragment(reason)));
    assert_eq!(document.blocks[2].text, "```\n");
    assert_eq!(document.rust_examples(), ["let x = 1;\nlet y = x;\n"]);
}

#[test]
fn command_ends_where_another_begins() {
    for (line, command) in [
        ("nexus-router man --out a && reboot", "nexus-router man --out a"),
        ("nexus-router runs export R | tar x", "nexus-router runs export R"),
        ("nexus-router contract lint - < a.json", "nexus-router contract lint -"),
        ("nexus-router tool list    # all of them", "nexus-router tool list"),
        (
            "nexus-router adapter try --args '{\"a\": \"> #;\"}' x",
            "nexus-router adapter try --args '{\"a\": \"> #;\"}' x",
        ),
        ("nexus-router runs show a#1 ", "nexus-router runs show a#1"),
    ] {
        assert_eq!(alone(line), command);
    }
}

#[test]
fn commands_are_found_within_lines() {
    let text = "cargo build && target/release/nexus-router serve\nnexus-router run p.json \\\n  --db x\ncd a\n";
    assert_eq!(commands(text), ["nexus-router serve", "nexus-router run p.json    --db x"]);
}
