//! Knows credentials by their form.

/// Beginnings of tokens that their issuers made recognisable; twelve characters or more follow.
pub(super) const ISSUED: &[&str] = &[
    "AIza",
    "ghp_",
    "gho_",
    "ghs_",
    "ghu_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "rk_live_",
    "sk-ant-",
    "sk-proj-",
    "sk_live_",
    "xoxa-",
    "xoxb-",
    "xoxp-",
    "xoxs-",
];

/// Beginnings of access keys of AWS and of signed JWTs.
pub(super) const FORMED: &[&str; 3] = &["AKIA", "ASIA", "eyJ"];

/// No known token is shorter.
pub(super) const SHORTEST: usize = 16;

/// Says whether a word has the form of a token: of a known issuer, of AWS, or a signed JWT.
pub(super) fn is_known_token(word: &str) -> bool {
    let issued = |prefix: &&str| word.strip_prefix(*prefix).is_some_and(|rest| rest.len() >= 12);
    let [access, session, json] = FORMED;
    let aws = word.len() == 20
        && (word.starts_with(access) || word.starts_with(session))
        && word.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
    let jwt = word.starts_with(json) && word.len() >= 20 && word.matches('.').count() == 2;
    aws || jwt || ISSUED.iter().any(issued)
}

/// Says whether a word is Base64 of `user:password`, as far as it is Base64 at all.
pub(super) fn holds_colon_in_base64(word: &str) -> bool {
    let (mut bits, mut count) = (0_u32, 0);
    for byte in word.bytes() {
        let six = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return false,
        };
        bits = (bits << 6 | u32::from(six)) & 0xffff;
        count += 6;
        if count >= 8 {
            count -= 8;
            if (bits >> count) & 0xff == u32::from(b':') {
                return true;
            }
        }
    }
    false
}
