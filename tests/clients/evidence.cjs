// Says of DSSE envelopes whether Sigstore's verifier takes them, each in a bundle of Sigstore. Standard input is a list of
// envelopes with the keys that are trusted; standard output is a list of true and false.
"use strict";

const { createPublicKey } = require("node:crypto");
const { readFileSync } = require("node:fs");

const { bundleFromJSON } = require("@sigstore/bundle");
const { VerificationError, Verifier, toSignedEntity, toTrustMaterial } = require("@sigstore/verify");

const NOTHING = { tlogs: [], ctlogs: [], certificateAuthorities: [], timestampAuthorities: [] };

function genuine({ envelope, keys }) {
  const bundle = bundleFromJSON({
    mediaType: "application/vnd.dev.sigstore.bundle.v0.3+json",
    verificationMaterial: { publicKey: { hint: envelope.signatures[0].keyid }, tlogEntries: [] },
    dsseEnvelope: envelope,
  });
  const find = (hint) => {
    if (!keys[hint]) throw new Error(`there is no key ${hint}`);
    return { publicKey: createPublicKey(keys[hint]), validFor: () => true };
  };
  // The log is ours and not Sigstore's: its proof is verified elsewhere.
  const verifier = new Verifier(toTrustMaterial(NOTHING, find), { tlogThreshold: 0, ctlogThreshold: 0, timestampThreshold: 0 });
  try {
    verifier.verify(toSignedEntity(bundle));
    return true;
  } catch (error) {
    if (!(error instanceof VerificationError)) throw error;
    return false;
  }
}

console.log(JSON.stringify(JSON.parse(readFileSync(0, "utf8")).map(genuine)));
