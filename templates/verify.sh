#!/bin/sh
# Verifies sealed evidence with nothing but sha256sum, jq, openssl and base64.
#
#   sh verify.sh BUNDLE [TRUST]
#
# BUNDLE is the directory of an execution, a rejection or a verification, or the file of an exported run. TRUST is a
# trust.json, or a directory with one, or with attestation*.pub.pem and log*.pub.pem, there or in its keys/ [default: where
# this script is]. A trust.json also says for which part of the log each key is good; without it every key is good for all.
# Keys inside BUNDLE are never used. Get TRUST from whom you trust, and not from whom the bundle is.
#
# Exits 0 if the bundle is genuine, 1 if it is not, and 2 if that cannot be told. One line says which, and why.
set -u
LC_ALL=C
export LC_ALL
unset IFS CDPATH
umask 077
# Where verdicts go, whatever is redirected at the time.
exec 3>&1

MOST_FILES=70000
MOST_BYTES=1073741824
IN_TOTO=application/vnd.in-toto+json

plain() { printf '%s' "$*" | tr -c '[:print:]' '?' | cut -c 1-300; }
broken() { printf 'NOT GENUINE %s: %s\n' "$(plain "$name")" "$(plain "$*")" >&3; exit 1; }
unsure() { printf 'CANNOT TELL %s: %s\n' "$(plain "$name")" "$(plain "$*")" >&2; exit 2; }

name=${1-}
if [ $# -lt 1 ] || [ $# -gt 2 ] || [ -z "$name" ]; then
    printf 'usage: sh verify.sh BUNDLE [TRUST]\n' >&2
    exit 2
fi
for tool in jq sha256sum openssl base64 find sort cmp mktemp od tr sed grep head tail cut; do
    command -v "$tool" >/dev/null 2>&1 || unsure "there is no $tool here; install it"
done
openssl pkeyutl -help 2>&1 | grep -q -e '-rawin' || unsure "this openssl cannot verify Ed25519; it takes version 3"

work=$(cd "${TMPDIR:-/tmp}" && mktemp -d "$PWD/verify.XXXXXXXXXX") || unsure "no temporary directory can be made"
# Nothing that somebody defined for jq is to decide here.
HOME=$work
export HOME
trap 'rm -rf "$work"' EXIT
trap 'exit 2' HUP INT TERM

# A name that begins with a dash is a name.
located() { case $1 in /*) printf '%s' "$1" ;; *) printf './%s' "$1" ;; esac }
digest() { sha256sum <"$1" | cut -d ' ' -f 1; }
bytes() { wc -c <"$1" | tr -d ' '; }
is_number() {
    # Few enough digits for the arithmetic of every shell.
    case $1 in '' | *[!0-9]* | 0?* | ?????????????????*) return 1 ;; esac
}
# decode TEXT FILE: base64, in the one spelling that encoding gives.
decode() {
    printf '%s' "$1" | base64 -d >"$2" 2>/dev/null && [ "$(base64 <"$2" | tr -d '\n')" = "$1" ]
}
# canonical FILE: whether it is one JSON document without blanks, its members sorted and each there once.
canonical() {
    jq -cjS -s 'if length == 1 then .[0] else error("several") end' "$1" >"$work/sorted" 2>/dev/null || return 1
    unescaped <"$work/sorted" >"$work/canonical"
}
# Some jq escape DEL, which RFC 8785 does not. A backslash before it may be one that was escaped itself.
unescaped() {
    sed -e ':again' -e "s/\\([^\\\\]\\(\\\\\\\\\\)*\\)\\\\u007f/\\1$(printf '\177')/" -e 't again'
}
# says FILE FILTER [OPTIONS]: whether a filter of jq is true of a document.
says() {
    file=$1 filter=$2
    shift 2
    jq -e "$@" "$filter" "$file" >/dev/null 2>&1
}
# twice FILE: whether a document has a member twice. Programs disagree about what that means.
twice() {
    [ -n "$(jq -c --stream 'if length == 2 then .[0] else .[0][:-1] end' "$1" 2>/dev/null | sort | uniq -d | head -n 1)" ]
}
# exact FILE: whether jq reads a document as everybody does: it is UTF-8 without a mark in front, no member is there twice,
# and outside of its strings, which have no control characters, are no numbers but integers as they are written.
exact() {
    jq -Rsj . "$1" 2>/dev/null | cmp -s - "$1" && ! twice "$1" || return 1
    tr '\000\011\012\015' '\001\001\001\001' <"$1" |
        sed -e 's/\\\\//g' -e 's/\\"//g' -e "s/\"[^\"$(printf '\001-\037')]*\"//g" >"$work/bare"
    ! grep -q -e "[^][{}:,0-9nul $(printf '\001')]" -e '^0[0-9]' -e '[^0-9]0[0-9]' "$work/bare"
}

# --- What is trusted ------------------------------------------------------------------------------------------------
# What a trust.json is: nothing else is in it; the ranges of keys begin with 0, have no gaps, and the last is open; no key is
# there twice; each key that replaces another does so by an entry of its own.
TRUST='def text($form): type == "string" and test($form) and (contains("\ufffd") | not);
    def number: type == "number" and . == floor and . >= 0 and . < 9007199254740992;
    def ranges(low; high): all(.[]; (low | number) and (high | . == null or number) and (high == null or high >= low))
        and reduce .[] as $key (0; if . != null and . == ($key | low) then $key | high | if . == null then null else . + 1 end
            else -1 end) == null;
    def once: length == (unique | length);
    def trust: keys == ["attestation_keys", "log_keys", "origin", "version"] and .version == 1
        and (.origin | text("\\A[^\\s+\\x00-\\x1f]+\\z"))
        and all(.attestation_keys, .log_keys; type == "array" and all(.[]; .pem | type == "string"))
        and all(.attestation_keys[]; keys == ["first_leaf", "keyid", "last_leaf", "pem"]
            and (.keyid | text("\\A[0-9a-f]{64}\\z")))
        and all(.log_keys[]; keys == ["first_size", "last_size", "pem", "vkey"] and (.vkey | utf8bytelength <= 4096
            and text("\\A[^\\s+\\x00-\\x1f]+\\+[0-9a-f]{8}\\+[A-Za-z0-9+/]{44}\\z")))
        and (.attestation_keys | ranges(.first_leaf; .last_leaf)) and (.log_keys | ranges(.first_size; .last_size))
        and ([.attestation_keys[], .log_keys[] | .pem] | once)
        and ([.attestation_keys[].first_leaf, .log_keys[].first_size | select(. > 0)] | once);'
# Leaves attestation.N.pem and log.N.pem in $work, each with the first and last number it is good for in a file .range.
take_trust() {
    place=$(located "${1:-$(dirname -- "$0")}")
    list=
    for file in "$place" "$place/trust.json" "$place/keys/trust.json"; do
        if [ -z "$list" ] && [ -f "$file" ]; then list=$file; fi
    done
    origin=
    if [ -n "$list" ]; then
        [ "$(bytes "$list")" -le 4194304 ] || unsure "$list is too long for a trust.json"
        says "$list" "$TRUST"' length == 1 and (.[0] | trust)' -s && exact "$list" || unsure "$list is no trust.json"
        origin=$(jq -r .origin "$list")
        keys_of attestation_keys attestation first_leaf last_leaf
        keys_of log_keys log first_size last_size
    else
        for kind in attestation log; do
            count=0
            for file in "$place/$kind"*.pub.pem "$place/keys/$kind"*.pub.pem; do
                [ -f "$file" ] || continue
                cat -- "$file" >"$work/$kind.$count.pem" || unsure "$file cannot be read"
                echo "0 null" >"$work/$kind.$count.range"
                count=$((count + 1))
            done
        done
    fi
    for kind in attestation log; do
        [ -f "$work/$kind.0.pem" ] || unsure "there is no $kind key in $place: no trust.json, no $kind.pub.pem"
        for key in "$work/$kind".*.pem; do
            openssl pkey -pubin -in "$key" -outform DER -out "${key%.pem}.der" 2>/dev/null &&
                [ "$(head -c 12 "${key%.pem}.der" | od -An -tx1 | tr -d ' \n')" = 302a300506032b6570032100 ] ||
                unsure "a trusted $kind key is no Ed25519 key"
            [ -z "$list" ] || named "${key%.pem}" ||
                unsure "$list is no trust.json: a $kind key is not the one that it is said to be"
        done
    done
}
keys_of() {
    count=$(jq -r ".$1 | length" "$list")
    is_number "$count" && [ "$count" -gt 0 ] && [ "$count" -le 10000 ] || unsure "$list has no $1"
    at=0
    while [ "$at" -lt "$count" ]; do
        jq -j ".$1[$at].pem" "$list" >"$work/$2.$at.pem"
        jq -r ".$1[$at] | .keyid // .vkey" "$list" >"$work/$2.$at.name"
        jq -r ".$1[$at] | \"\(.$3) \(.$4)\"" "$list" >"$work/$2.$at.range"
        at=$((at + 1))
    done
}
# named KEY: whether the PEM text of a key is the one that is written of it, and its name follows from it.
named() {
    { echo '-----BEGIN PUBLIC KEY-----'; base64 <"$1.der" | tr -d '\n'; printf '\n%s\n' '-----END PUBLIC KEY-----'; } |
        cmp -s - "$1.pem" || return 1
    case $kind in
        attestation) digest "$1.der" ;;
        log)
            printf '%s+' "$origin"
            { printf '%s\n\001' "$origin"; tail -c 32 "$1.der"; } | sha256sum | cut -c 1-8 | tr '\n' +
            { printf '\001'; tail -c 32 "$1.der"; } | base64 | tr -d '\n'
            echo
            ;;
    esac | cmp -s - "$1.name"
}
# signed_by KIND NUMBER MESSAGE SIGNATURE: finds the key that is good for the number and signed the message.
signed_by() {
    for key in "$work/$1".*.pem; do
        read -r first last <"${key%.pem}.range"
        [ "$last" != null ] || last=$2
        is_number "$first" && is_number "$last" || unsure "a trusted $1 key has no range"
        if [ "$2" -ge "$first" ] && [ "$2" -le "$last" ] &&
            openssl pkeyutl -verify -pubin -inkey "$key" -rawin -in "$3" -sigfile "$4" >/dev/null 2>&1; then
            signer=${key%.pem}.der
            return 0
        fi
    done
    return 1
}

# --- The seal -------------------------------------------------------------------------------------------------------
# open_envelope FILE: the payload of a DSSE envelope goes to $work/payload; nothing is verified yet.
open_envelope() {
    says "$1" '(keys == ["payload", "payloadType", "signatures"]) and (.signatures | length == 1)
        and (.signatures[0] | keys == ["keyid", "sig"]) and .payloadType == $type' --arg type "$IN_TOTO" ||
        broken "the attestation is no DSSE envelope of an in-toto statement with one signature"
    # A shell would drop what must not be there.
    says "$1" 'all(.payload, .signatures[0].sig; type == "string" and (test("[^A-Za-z0-9+/=]") | not))
        and (.signatures[0].keyid | type == "string" and test("\\A[0-9a-f]{64}\\z"))' ||
        broken "the payload or the signature of the attestation is no base64, or its keyid no digest"
    decode "$(jq -r .payload "$1")" "$work/payload" || broken "the payload of the attestation is no base64"
    decode "$(jq -r '.signatures[0].sig' "$1")" "$work/signature" && [ "$(bytes "$work/signature")" -eq 64 ] ||
        broken "the signature of the attestation is no base64 of 64 bytes"
    keyid=$(jq -r '.signatures[0].keyid' "$1")
    printf 'DSSEv1 %d %s %d ' "${#IN_TOTO}" "$IN_TOTO" "$(bytes "$work/payload")" | cat - "$work/payload" >"$work/pae"
    says "$work/payload" '._type == "https://in-toto.io/Statement/v1"
        and .predicateType == "https://in-toto.io/attestation/link/v0.3"
        and (.subject | type == "array" and length > 0) and (.predicate | type == "object")
        and all(.subject[]; keys == ["digest", "name"] and (.digest | keys == ["sha256"]))
        and ([.subject[].name] | length == (unique | length))' ||
        broken "what was signed is no in-toto statement about a link"
}
# open_proof FILE: reads a tlog-proof in the one form that is written: $index, $size, $root, $log, hashes.N, note, log.sig.
open_proof() {
    [ "$(bytes "$1")" -le 262144 ] || broken "the proof is longer than 256 KiB"
    dash=$(printf '\342\200\224')
    index='' log='' size='' root='' blank='' line=''
    hashes=0
    {
        IFS= read -r line
        IFS= read -r index
        while IFS= read -r line && [ -n "$line" ] && [ "$hashes" -lt 64 ]; do
            decode "$line" "$work/hash.$hashes" && [ "$(bytes "$work/hash.$hashes")" -eq 32 ] ||
                broken "a line of the proof is no base64 of 32 bytes"
            printf '%s\n' "$line"
            hashes=$((hashes + 1))
        done >"$work/path"
        IFS= read -r log
        IFS= read -r size
        IFS= read -r root
        IFS= read -r blank
        IFS= read -r line
    } <"$1"
    index=${index#index }
    is_number "$index" && is_number "$size" || broken "the proof has no index, or its checkpoint no size"
    [ "$index" -lt "$size" ] || broken "the proof is of entry $index, and its checkpoint of only $size"
    [ -n "$log" ] && [ -z "$blank" ] || broken "the proof has no checkpoint"
    printf '%s\n%s\n%s\n' "$log" "$size" "$root" >"$work/note"
    sig=${line#"$dash $log "}
    { printf '%s\nindex %s\n' c2sp.org/tlog-proof@v1 "$index"; cat "$work/path"; echo; cat "$work/note"
        printf '\n%s %s %s\n' "$dash" "$log" "$sig"; } | cmp -s - "$1" ||
        broken "the proof is not in the one form of c2sp.org/tlog-proof@v1 that is written"
    decode "$root" "$work/root" && [ "$(bytes "$work/root")" -eq 32 ] || broken "the root of the checkpoint is no hash"
    decode "$sig" "$work/note.sig" && [ "$(bytes "$work/note.sig")" -eq 68 ] ||
        broken "the signature of the checkpoint is no base64 of 68 bytes"
}
# check_seal KIND MANIFEST SPEC ENVELOPE PROOF: SPEC is a digest, or null.
check_seal() {
    open_envelope "$4"
    open_proof "$5"
    signed_by attestation "$index" "$work/pae" "$work/signature" ||
        broken "no attestation key that is trusted for entry $index signed the statement"
    [ "$(digest "$signer")" = "$keyid" ] || broken "the attestation names another key than the one that signed it"
    signed="key $keyid"

    spec=$3
    [ "$spec" = null ] || spec="\"$spec\""
    printf '{"kind":"%s","manifest_sha256":"%s","spec_sha256":%s,"statement_sha256":"%s"}' "$1" "$2" "$spec" \
        "$(digest "$work/payload")" >"$work/entry"
    { printf '\000'; cat "$work/entry"; } | openssl dgst -sha256 -binary >"$work/node"
    # The path of RFC 9162, 2.1.3.2.
    low=$index high=$((size - 1)) at=0
    while [ "$at" -lt "$hashes" ]; do
        [ "$high" -gt 0 ] || broken "the proof has more hashes than the log is high"
        if [ $((low % 2)) -eq 1 ] || [ "$low" -eq "$high" ]; then
            { printf '\001'; cat "$work/hash.$at" "$work/node"; } | openssl dgst -sha256 -binary >"$work/next"
            while [ $((low % 2)) -eq 0 ] && [ "$low" -gt 0 ]; do low=$((low / 2)) high=$((high / 2)); done
        else
            { printf '\001'; cat "$work/node" "$work/hash.$at"; } | openssl dgst -sha256 -binary >"$work/next"
        fi
        mv "$work/next" "$work/node"
        low=$((low / 2)) high=$((high / 2)) at=$((at + 1))
    done
    [ "$high" -eq 0 ] && cmp -s "$work/node" "$work/root" ||
        broken "the proof does not lead from this bundle to the root of the log: it is not entry $index"

    [ -z "$origin" ] || [ "$log" = "$origin" ] || broken "the checkpoint is one of $log, and trusted is $origin"
    tail -c +5 "$work/note.sig" >"$work/note.ed25519"
    signed_by log "$size" "$work/note" "$work/note.ed25519" ||
        broken "no log key that is trusted for $size entries signed the checkpoint"
    { printf '%s\n\001' "$log"; tail -c 32 "$signer"; } | openssl dgst -sha256 -binary | head -c 4 >"$work/id"
    head -c 4 "$work/note.sig" | cmp -s - "$work/id" || broken "the checkpoint names another key than the one that signed it"
}
# subject NAME DIGEST: the statement speaks of this.
subject() {
    says "$work/payload" 'any(.subject[]; .name == $name and .digest.sha256 == $digest)' --arg name "$1" --arg digest "$2" ||
        broken "the statement is not about $1 as it is here"
}

# --- Bundles --------------------------------------------------------------------------------------------------------
check_directory() {
    cd "$path" || unsure "it cannot be entered"
    [ "$(find . | head -n $((MOST_FILES + 1)) | wc -l)" -le "$MOST_FILES" ] || broken "it has more than $MOST_FILES files"
    find . >/dev/null 2>&1 || unsure "it cannot be listed"
    [ -z "$(find . ! -type f ! -type d | head -n 1)" ] || broken "it has something that is neither a file nor a directory"
    [ -z "$(find . -name '*[!A-Za-z0-9._-]*' | head -n 1)" ] || broken "it has a name with characters that no bundle has"
    [ -z "$(find . -type f -size +"$((MOST_BYTES / 512))" | head -n 1)" ] || unsure "it has a file of more than 1 GiB"
    find . -type f | sed 's,^\./,,' | sort >"$work/files"
    while IFS= read -r file; do [ -r "$file" ] || unsure "$file cannot be read"; done <"$work/files"
    for file in manifest.sha256.json attestation.intoto.jsonl inclusion.tlog-proof; do
        [ -f "$file" ] || broken "$file is missing"
    done
    [ "$(bytes manifest.sha256.json)" -le 33554432 ] && [ "$(bytes attestation.intoto.jsonl)" -le 33554432 ] ||
        broken "its manifest or its attestation is longer than 32 MiB"
    manifest=$(digest manifest.sha256.json)
    canonical manifest.sha256.json && cmp -s "$work/canonical" manifest.sha256.json || broken "the manifest is not canonical"
    canonical attestation.intoto.jsonl && { cat "$work/canonical"; echo; } | cmp -s - attestation.intoto.jsonl ||
        broken "the attestation is not one canonical line"
    printf '%s\n' manifest.sha256.json attestation.intoto.jsonl inclusion.tlog-proof >"$work/outer"
    if [ -f exec_spec.json ]; then
        check_execution
    elif [ -f rejection.json ]; then
        check_rejection
    else
        check_verification
    fi
}
# check_files FILTER: the manifest lists what a filter of jq says it may, all of it is as listed, and there is nothing else.
check_files() {
    says manifest.sha256.json 'keys == ["files"] and (.files | type == "object")
        and all(.files[]; type == "string" and test("\\A[0-9a-f]{64}\\z"))
        and all(.files | keys[]; test("\\A[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*\\z") and (split("/") | all(. != "." and . != "..")))
        and (.files | keys | '"$1"')' || broken "the manifest is not one of such a bundle"
    jq -r '.files | keys[]' manifest.sha256.json >"$work/listed"
    grep '^volatile/' "$work/files" >"$work/volatile"
    sort "$work/listed" "$work/outer" "$work/volatile" | cmp -s - "$work/files" || {
        file=$(sort "$work/listed" "$work/outer" "$work/volatile" | comm -3 - "$work/files" | head -n 1 | tr -d '\t')
        broken "$file is missing, or should not be there"
    }
    # A directory is there because of what is in it, but for these two of an execution.
    [ -z "$(find . -type d -empty ! -path . ! -path ./outputs ! -path ./volatile | head -n 1)" ] ||
        broken "it has an empty directory"
    jq -r '.files | to_entries[] | "\(.value)  ./\(.key)"' manifest.sha256.json >"$work/sums"
    file=$(sha256sum --check --strict --quiet "$work/sums" 2>/dev/null | head -n 1)
    [ -z "$file" ] && sha256sum --check --strict --status "$work/sums" || broken "hash_mismatch: ${file%%:*}"
}
check_execution() {
    [ -f run_summary.json ] || broken "run_summary.json is missing"
    [ -d outputs ] && [ -d volatile ] || broken "outputs or volatile is missing"
    echo run_summary.json >>"$work/outer"
    check_files 'contains(["exec_spec.json", "stderr.txt", "stdout.txt"])
        and all(. == "exec_spec.json" or . == "stderr.txt" or . == "stdout.txt" or startswith("outputs/"))'
    [ "$(bytes run_summary.json)" -le 1048576 ] && [ "$(bytes exec_spec.json)" -le 1048576 ] ||
        broken "its spec or its summary is longer than 1 MiB"
    specified=$(digest exec_spec.json)
    says run_summary.json '.spec_sha256 == $spec and .manifest_sha256 == $manifest
        and .inputs_manifest_sha256 == $of[0].inputs_manifest_sha256
        and .task_id == $of[0].task_id and .exec_id == $of[0].exec_id and .schema_version == 1' \
        --arg spec "$specified" --arg manifest "$manifest" --slurpfile of exec_spec.json ||
        broken "run_summary.json is not that of this spec and this manifest"
    if [ -f outputs/inputs.manifest.json ]; then
        says exec_spec.json '.inputs_manifest_sha256 == $inputs' --arg inputs "$(digest outputs/inputs.manifest.json)" ||
            broken "outputs/inputs.manifest.json is not that of this spec"
    fi
    check_seal execution "$manifest" "$specified" attestation.intoto.jsonl inclusion.tlog-proof
    subject manifest.sha256.json "$manifest"
    subject exec_spec.json "$specified"
    subject run_summary.json "$(digest run_summary.json)"
    says "$work/payload" '.predicate.command == $of[0].cmd_argv and .predicate.name == $of[0].role + "/" + $of[0].action' \
        --slurpfile of exec_spec.json || broken "the statement is of another role, action or command than the spec"
    check_volatile
    told="execution $(jq -r '"\(.task_id)/\(.exec_id) \(.outcome)"' run_summary.json)"
}
# Only the statement covers what differs between equal executions.
check_volatile() {
    while IFS= read -r file; do digest "$file" | tr -d '\n'; echo " $file"; done <"$work/volatile" >"$work/volatile.sums"
    says "$work/payload" '(.predicate.byproducts.volatile // {} | to_entries | map("\(.value) \(.key)") | sort)
        == ($have | split("\n") | map(select(. != "")) | sort)' --rawfile have "$work/volatile.sums" ||
        broken "volatile/ is not what the statement says"
}
check_rejection() {
    check_files '. == ["rejection.json"]'
    [ -z "$(find . -type d ! -path . | head -n 1)" ] || broken "it has a directory, and no rejection has one"
    [ "$(bytes rejection.json)" -le 1048576 ] || broken "rejection.json is longer than 1 MiB"
    says rejection.json '.outcome == "REJECTED" and .exec_id == null and .schema_version == 1' ||
        broken "rejection.json is no rejection"
    check_seal rejection "$manifest" null attestation.intoto.jsonl inclusion.tlog-proof
    subject manifest.sha256.json "$manifest"
    subject rejection.json "$(digest rejection.json)"
    told="rejection $(jq -r '"\(.task_id) \(.reason)"' rejection.json)"
}
check_verification() {
    sort "$work/outer" | cmp -s - "$work/files" || broken "it has more or other files than a verification"
    [ -z "$(find . -type d ! -path . | head -n 1)" ] || broken "it has a directory, and no verification has one"
    says manifest.sha256.json 'keys == ["decisions", "idempotency_key", "reason", "spec_sha256"]
        and (.spec_sha256 | type == "string" and test("\\A[0-9a-f]{64}\\z"))' || broken "it is no verification"
    specified=$(jq -r .spec_sha256 manifest.sha256.json)
    check_seal verification "$manifest" "$specified" attestation.intoto.jsonl inclusion.tlog-proof
    subject manifest.sha256.json "$manifest"
    told="verification of $specified"
}
# split_run: takes an exported run apart: $work/covered is what its digest covers, byte for byte, $work/frame has the members
# after that. Fails if it is not written as routers write it. What jq makes of a number is never what is digested.
split_run() {
    [ "$(tr -d '\040-\176' <"$run" | head -c 2 | od -An -tx1 | tr -d ' \n')" = 0a ] || return 1
    when=$(head -c 128 "$run" |
        sed -n 's/^{"bundle_version":"0\.3","exported_at":"\([0-9TZ:.-]\{1,40\}\)","events":\[.*$/\1/p')
    printf '{"bundle_version":"0.3","exported_at":"%s",' "$when" >"$work/head"
    first=$(bytes "$work/head")
    head -c "$first" "$run" | cmp -s - "$work/head" || return 1
    # Inside of strings, quotes have a backslash before them. So this is a member, and what comes after it is held to a form.
    whole=$(bytes "$run") end=1048576
    [ "$whole" -ge "$end" ] || end=$whole
    at=$(tail -c "$end" "$run" | jq -Rs 'rindex(",\"digests\":{\"sha256\":\"")' 2>/dev/null)
    is_number "$at" || return 1
    end=$((whole - end + at))
    [ "$end" -gt "$first" ] || return 1
    { printf '{'; tail -c +"$((first + 1))" "$run" | head -c "$((end - first))"; printf '}'; } >"$work/covered"
    { printf '{'; tail -c +"$((end + 2))" "$run"; } >"$work/frame"
    says "$work/frame" 'all(.. | scalars; type == "string")' || return 1
    jq -ca '{digests: {sha256: .digests.sha256}, chain: (.chain | {alg, head})}
        + if has("provenance")
          then {provenance: (.provenance | {export_method, export_version, source_db_path, source_run_id})} else {} end
        + {attestation: (.attestation | {payload, payloadType, signatures: [.signatures[0] | {keyid, sig}]}), proof}' \
        "$work/frame" 2>/dev/null | sed "s/$(printf '\177')/\\\\u007f/g" | cmp -s - "$work/frame"
}
# respelled: tells of a run that is not, byte for byte, what was exported. It may still say the same.
respelled() {
    canonical "$run" || {
        [ ! -f "$work/covered" ] || broken "its digest is not that of its run and events"
        case $(jq -s . "$run" 2>&1 >/dev/null | head -c 300) in
            *depth*) unsure "it is not written as runs are exported, and nested too deeply for this jq; export it again" ;;
        esac
        broken "it is no JSON document"
    }
    ! twice "$run" || broken "it has a member twice"
    says "$run" '(keys - ["attestation", "bundle_version", "chain", "digests", "events", "exported_at", "proof", "provenance",
        "run"] == []) and .bundle_version == "0.3" and (.events | type == "array") and (.run | type == "object")
        and (.attestation | type == "object") and (.proof | type == "string")' ||
        broken "it is no exported run with an attestation and a proof"
    # As routers write it: sorted, without blanks, in ASCII with DEL escaped; but numbers are what jq makes of them.
    jq -cSaj '{events, run}' "$run" | sed "s/$(printf '\177')/\\\\u007f/g" >"$work/again"
    says "$run" '.digests.sha256 == $digest' --arg digest "$(digest "$work/again")" ||
        broken "its digest is not that of its run and events"
    unsure "it is not written, byte for byte, as runs are exported; export it again"
}
check_run() {
    run=$path
    [ -r "$run" ] || unsure "it cannot be read"
    [ "$(bytes "$run")" -le "$MOST_BYTES" ] || unsure "it has more than 1 GiB"
    split_run || { rm -f "$work/covered"; respelled; }
    covered=$(digest "$work/covered")
    says "$work/frame" '.digests.sha256 == $digest' --arg digest "$covered" || respelled
    jq -cS .attestation "$work/frame" >"$work/attestation"
    jq -j .proof "$work/frame" >"$work/proof"
    check_seal run "$covered" null "$work/attestation" "$work/proof"
    # What is covered is what was sealed; only now does it matter what it says.
    jq -c '{run, events: (.events | length)}' "$work/covered" >"$work/run" 2>/dev/null ||
        unsure "its seal holds, but it is nested too deeply for this jq to read"
    says "$work/payload" 'any(.subject[]; .name == "runs/" + $of[0].run.run_id and .digest.sha256 == $digest)' \
        --arg digest "$covered" --slurpfile of "$work/run" || broken "the statement is not about this run as it is here"
    says "$work/frame" '.chain.alg == "sha256" and .chain.head == $said[0].predicate.byproducts.chain_head
        and $of[0].run.status == $said[0].predicate.byproducts.status
        and $of[0].events == $said[0].predicate.byproducts.events' \
        --slurpfile said "$work/payload" --slurpfile of "$work/run" ||
        broken "the statement is of another chain, end or number of events"
    says "$work/frame" '(has("provenance") | not) or .provenance.source_run_id == $of[0].run.run_id' \
        --slurpfile of "$work/run" ||
        broken "it is said to come from another run"
    told="run $(jq -r '"\(.run.run_id) \(.run.status)"' "$work/run")"
}

path=$(located "$name")
take_trust "${2-}"
if [ -d "$path" ]; then
    check_directory
elif [ -f "$path" ]; then
    check_run
else
    unsure "there is no such directory or file"
fi
printf 'GENUINE %s: %s, entry %s of %s in %s, %s\n' "$(plain "$name")" "$(plain "$told")" "$index" "$size" "$(plain "$log")" \
    "$(plain "$signed")"
