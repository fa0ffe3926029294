//! The layout of the v1 types, recorded and compared: it must never change.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::Path;

use nexus_router_abi::abi_stable::StableAbi;
use nexus_router_abi::abi_stable::std_types::utypeid::UTypeId;
use nexus_router_abi::abi_stable::type_layout::{TLData, TLFields, TypeLayout};
use nexus_router_abi::{AdapterBox, Answer, CompletionBox, FactoryV1Ref, HostBox, LibHeader};

/// The package that defines the v1 types; its version is part of what is compared at load.
const PACKAGE: &str = "nexus-router-abi";

/// Writes what crosses the boundary: every type that the roots reach, each once.
struct Writer {
    seen: HashSet<UTypeId>,
    text: String,
}

impl Writer {
    fn visit(&mut self, layout: &'static TypeLayout) {
        if !self.seen.insert(layout.get_utypeid()) {
            return;
        }
        self.text.push_str(&show(layout));
        for nested in layout.shared_vars().type_layouts() {
            self.visit(nested());
        }
        if let Some(checks) = layout.extra_checks() {
            for nested in checks.nested_type_layouts().iter() {
                self.visit(nested);
            }
        }
    }
}

/// Describes one type: name, version of its package, size, alignment, representation, fields, functions.
fn show(layout: &'static TypeLayout) -> String {
    let mut text = String::new();
    let (package, version) = layout.package_and_version();
    let niche = if layout.is_nonzero() { ", never zero" } else { "" };
    writeln!(
        text,
        "{} ({package} {}): size {}, alignment {}, {:?}{niche}",
        layout.full_type(),
        version.version,
        layout.size(),
        layout.alignment(),
        layout.repr_attr(),
    )
    .unwrap();
    match layout.data() {
        TLData::Primitive(primitive) => writeln!(text, "  primitive {primitive:?}").unwrap(),
        TLData::Opaque => text.push_str("  opaque\n"),
        TLData::Struct { fields } => show_fields(&mut text, "field", fields),
        TLData::Union { fields } => show_fields(&mut text, "variant", fields),
        TLData::Enum(variants) => {
            writeln!(text, "  {}", squeezed(&variants.to_string())).unwrap();
            show_fields(&mut text, "field", variants.fields);
        }
        TLData::PrefixType(prefix) => {
            writeln!(text, "  prefix of {} fields", prefix.first_suffix_field).unwrap();
            show_fields(&mut text, "field", prefix.fields);
        }
    }
    text
}

fn show_fields(text: &mut String, what: &str, fields: TLFields) {
    for field in fields {
        writeln!(text, "  {what} {}: {}", field.name(), field.full_type()).unwrap();
        for function in field.function_range().iter() {
            writeln!(text, "    {}", squeezed(&function.to_string())).unwrap();
        }
    }
}

/// Puts a text of several lines on one.
fn squeezed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn recorded_types() -> String {
    let mut writer = Writer { seen: HashSet::new(), text: String::new() };
    for layout in [
        FactoryV1Ref::LAYOUT,
        AdapterBox::LAYOUT,
        HostBox::LAYOUT,
        CompletionBox::LAYOUT,
        Answer::LAYOUT,
    ] {
        writer.visit(layout);
    }
    writeln!(writer.text, "header: {} bytes", size_of::<LibHeader>()).unwrap();
    let lines: Vec<&str> = writer.text.lines().map(str::trim_end).collect();
    lines.join("\n") + "\n"
}

#[test]
fn v1_types_are_as_they_were_recorded() {
    let golden = crate::support::workspace().join("tests/golden/abi_v1_layout.txt");
    let recorded = std::fs::read_to_string(&golden).unwrap_or_default();
    let now = recorded_types();
    for reached in [PACKAGE, "create", "describe", "start", "shutdown", "notify", "ask", "complete"]
    {
        assert!(now.contains(reached), "{reached} is not in what is compared:\n{now}");
    }
    if now != recorded {
        let fresh = Path::new(env!("CARGO_TARGET_TMPDIR")).join("abi_v1_layout.txt");
        std::fs::write(&fresh, &now).unwrap();
        let same = now.lines().zip(recorded.lines()).take_while(|(now, then)| now == then).count();
        panic!(
            "the layout of the v1 types differs from tests/golden/abi_v1_layout.txt, first at line {}.\n\
             v1 types must not change: every adapter that was built with them would be refused. Add to \
             the JSON texts inside the calls, or define v2 types beside them.\n\
             The layout that they have now is in {}",
            same + 1,
            fresh.display()
        );
    }
}
