//! What the formats of C2SP ask for, byte by byte.

use proptest::prelude::*;

use super::tile::{Kind, Tile};
use super::*;

/// The examples of `c2sp.org/signed-note`.
const VERIFIER: &str = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k";
const NOTE: &str = "This is an example message.\n\n\u{2014} example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=\n";
/// The example of `c2sp.org/tlog-checkpoint`.
const CHECKPOINT: &str = "example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n\n\u{2014} example.com/behind-the-sofa Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=\n";

#[test]
fn example_of_a_note_is_verified() {
    let verifier: Verifier = VERIFIER.parse().unwrap();
    assert_eq!((verifier.to_string().as_str(), verifier.name()), (VERIFIER, "example.com/foo"));
    let note = note::Note::parse(NOTE).unwrap();
    assert_eq!(note.text, "This is an example message.\n");
    let known = [verifier];
    assert_eq!(note.signers(&known).unwrap(), known);
    assert_eq!(note.signers(&[]).unwrap(), []);
    let changed = NOTE.replace("message.", "message!");
    let changed = note::Note::parse(&changed).unwrap();
    assert!(matches!(changed.signers(&known), Err(Error::Signature { .. })));
}

#[test]
fn example_of_a_checkpoint_is_read() {
    let note = note::Note::parse(CHECKPOINT).unwrap();
    let body = checkpoint::Body::parse(note.text).unwrap();
    assert_eq!((body.origin, body.size), ("example.com/behind-the-sofa", 20_852_163));
    let root = "0ac5186a91863e8e1d90c808014aa89bf5da8e3ee1d9f07630f0378f68f1ab62";
    assert_eq!(body.root.to_string(), root);
    let refused = Checkpoint::open(CHECKPOINT, &[VERIFIER.parse().unwrap()]).unwrap_err();
    let told = refused.to_string();
    assert!(matches!(refused, Error::UnknownKey { .. }), "{told}");
    assert!(told.contains("behind-the-sofa+033de0ae") && told.contains("foo+530d903a"), "{told}");
}

#[test]
fn malformed_verifier_keys_are_refused() {
    let bad = [
        "",
        "example.com/foo",
        "+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k",
        "example.com/foo+530d903b+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k",
        "example.com/foo+530D903A+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k",
        "example.com/foo+530d903a+BOkyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k",
        "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3Q==",
        "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k\n",
        "example.com /foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k",
        "example.com/foo+530d903a+",
    ];
    for text in bad.into_iter().chain([&*"a".repeat(1 << 20)]) {
        assert!(text.parse::<Verifier>().is_err(), "{text:.99}");
    }
    for name in ["", "a b", "a+b", "a\nb", "a\u{a0}b", "a\u{1}b"] {
        let key = VERIFIER.parse::<Verifier>().unwrap().key();
        assert!(matches!(Verifier::new(name, key), Err(Error::Name { .. })), "{name:?}");
    }
}

#[test]
fn malformed_notes_and_checkpoints_are_refused() {
    let (text, below) = CHECKPOINT.split_once("\n\n").unwrap();
    let signature = below.rsplit_once(' ').unwrap().1;
    let notes = [
        String::new(),
        "\n".to_owned(),
        "\n\n".to_owned(),
        format!("{text}\n"),
        format!("{text}\n\n"),
        format!("{text}\n\n\n"),
        format!("{text}\n{below}"),
        format!("{text}\n\n{}", below.trim_end()),
        format!("{text}\n\n{below}\n"),
        format!("{text}\n\n{below}x\n"),
        format!("{text}\r\n\n{below}"),
        format!("{text}\0\n\n{below}"),
        format!("{text}\n\n{}", below.replace('\u{2014}', "-")),
        format!("{text}\n\n\u{2014} {signature}"),
        format!("{text}\n\n\u{2014}  {signature}"),
        format!("{text}\n\n\u{2014} a+b {signature}"),
        format!("{text}\n\n\u{2014} a\u{2003}b {signature}"),
        format!("{text}\n\n\u{2014} a  {signature}"),
        format!("{text}\n\n\u{2014} a AAAAAA==\n"),
        format!("{text}\n\n\u{2014} a AAAAAAB=\n"),
        format!("{text}\n\n\u{2014} a AAAAAAA\n"),
        format!("{text}\n\n{below}{}", "\u{2014} a AAAAAAA=\n".repeat(10_000)),
    ];
    for note in notes {
        let refused = Checkpoint::open(&note, &[]).unwrap_err();
        assert!(matches!(refused, Error::Note { .. }), "{note:.300}: {refused}");
    }
    let root = "CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=";
    for text in [
        "example.com".to_owned(),
        "example.com\n5".to_owned(),
        format!("\n5\n{root}"),
        format!("example.com\n05\n{root}"),
        format!("example.com\n+5\n{root}"),
        format!("example.com\n-5\n{root}"),
        format!("example.com\n\n{root}"),
        format!("example.com\n 5\n{root}"),
        format!("example.com\n18446744073709551616\n{root}"),
        format!("example.com\n0\n{root}"),
        format!("example.com\n5\n{}", root.trim_end_matches('=')),
        format!("example.com\n5\n{}", root.replace("I=", "J=")),
        format!("example.com\n5\n{root} "),
        format!("example.com\n5\n\n{root}"),
        format!("example.com\n5\n{root}\n\nextension"),
        "example.com\n5\nAAAA".to_owned(),
    ] {
        let refused = Checkpoint::open(&format!("{text}\n\n{below}"), &[]).unwrap_err();
        assert!(matches!(refused, Error::Note { .. }), "{text}: {refused}");
    }
    // What the format allows is read.
    for text in [
        format!("any text\n18446744073709551615\n{root}\nextension line"),
        "example.com\n0\n47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=".to_owned(),
    ] {
        let refused = Checkpoint::open(&format!("{text}\n\n{below}"), &[]).unwrap_err();
        assert!(matches!(refused, Error::UnknownKey { .. }), "{text}: {refused}");
    }
}

#[test]
fn malformed_proofs_are_refused() {
    let hash = "gSKyXoYZUgZ6jduWYrkDOARinOMGJveXjgMkBTcdPlQ=";
    let good =
        format!("c2sp.org/tlog-proof@v1\nextra YWdl\nindex 7\n{hash}\n{hash}\n\n{CHECKPOINT}");
    let proof: Proof = good.parse().unwrap();
    assert_eq!(
        (proof.index, proof.hashes.len(), proof.extra.as_deref()),
        (7, 2, Some(&b"age"[..]))
    );
    assert_eq!(proof.to_string(), good);
    let no_hashes = good.replace(&format!("{hash}\n"), "");
    assert_eq!(no_hashes.parse::<Proof>().unwrap().to_string(), no_hashes);
    for bad in [
        String::new(),
        good.replace("@v1", "@v2"),
        good.replace("proof@v1\n", "proof@v1\r\n"),
        good.replace("extra YWdl", "extra "),
        good.replace("extra YWdl", "extra YWd"),
        good.replace("extra YWdl", "extra  YWdl"),
        good.replace("extra YWdl\n", "extra YWdl\nextra YWdl\n"),
        good.replace("extra YWdl\nindex 7", "index 7\nextra YWdl"),
        good.replace("index 7\n", ""),
        good.replace("index 7", "index 07"),
        good.replace("index 7", "index -7"),
        good.replace("index 7", "index  7"),
        good.replace("index 7", "Index 7"),
        good.replace("index 7", "index 20852163"),
        good.replace("index 7", "index 18446744073709551616"),
        good.replace("index 7", "index 7\nAAAA"),
        good.replace("index 7\n", "index 7\n\n"),
        good.replace("index 7\n", &format!("index 7\n{}", format!("{hash}\n").repeat(63))),
        good.replace(CHECKPOINT, ""),
        good.replace(&format!("\n\n{CHECKPOINT}"), &format!("\n{CHECKPOINT}")),
        good.replace(&format!("\n\n{CHECKPOINT}"), &format!("\n\n\n{CHECKPOINT}")),
        format!("{good}\n"),
        good.replace("YWdl", &"YWdl".repeat(1 << 17)),
    ] {
        assert!(bad.parse::<Proof>().is_err(), "{bad:.300}");
    }
}

#[test]
fn tiles_are_where_others_look_for_them() {
    let path = |index, width| Tile { kind: Kind::Hashes(0), index, width }.to_string();
    assert_eq!(path(1_234_067, 256), "tile/0/x001/x234/067");
    assert_eq!(path(0, 5), "tile/0/000.p/5");
    assert_eq!(path(1000, 256), "tile/0/x001/000");
    let entries = Tile { kind: Kind::Entries, index: 273, width: 112 };
    assert_eq!(entries.to_string(), "tile/entries/273.p/112");
    // The example of the specification.
    let of = |level, index| Tile::of(Kind::Hashes(level), index, 70_000).map(|tile| tile.width);
    assert_eq!((of(0, 272), of(0, 273), of(0, 274)), (Some(256), Some(112), None));
    assert_eq!((of(1, 0), of(1, 1), of(2, 0), of(3, 0)), (Some(256), Some(17), Some(1), None));
    for size in [0, 1, u64::MAX] {
        for index in [0, 1, u64::MAX / 256, u64::MAX] {
            for level in [0, 7, 8, 63] {
                let tile = Tile::of(Kind::Hashes(level), index, size);
                assert!(tile.is_none_or(|tile| (1..=256).contains(&tile.width)));
            }
        }
    }
}

proptest! {
    #[test]
    fn any_text_has_a_verdict(text in "(c2sp.org/tlog-proof@v1\n|index [0-9]{1,20}\n|— [a-z+ ]{1,5} |[A-Za-z0-9+/=]{4,48}|[0-9]{1,21}|\n\n|\n|.){0,40}") {
        drop((Checkpoint::open(&text, &[]), text.parse::<Verifier>()));
        if let Ok(proof) = text.parse::<Proof>() {
            prop_assert_eq!(proof.to_string(), text);
        }
    }
}

#[test]
fn the_tiles_above_the_leaves_stay_while_many_others_are_read() {
    let place = tempfile::tempdir().unwrap();
    let key = crate::key::SigningKey::create(&place.path().join("key.pem")).unwrap();
    let directory = place.path().join("log");
    let log = Log::open(&directory, Signer::new("example.com/log", key).unwrap(), &[]).unwrap();
    let entries = |from: u64| (from..from + 10_000).map(|number| number.to_string().into_bytes());
    for batch in 0..10 {
        log.append(&entries(batch * 10_000).collect::<Vec<_>>()).unwrap();
    }
    let (tree, checkpoint) = (Tree::open(&directory).unwrap(), log.checkpoint());
    tree.proof(0, &checkpoint).unwrap();
    // Another hundred tiles of leaves, none of which is below the first tile above the leaves.
    for tile in 0..100 {
        tree.proof(65_536 + tile * 256, &checkpoint).unwrap();
    }
    std::fs::remove_file(directory.join("tile/1/000")).unwrap();
    let proof = tree.proof(40_000, &checkpoint).unwrap();
    proof.verify(b"40000", log.verifiers()).unwrap();
    assert!(Tree::open(&directory).unwrap().proof(40_000, &checkpoint).is_err(), "it is needed");
}
