import { expect, test } from "vitest";
import { iceOf, withIce } from "../src/peer.ts";

const OFFER = "v=0\r\na=ice-ufrag:new\r\na=ice-pwd:secret\r\nm=audio 9 X 0\r\na=mid:0\r\n";

test("a fragment holds the credentials of a description", () => {
  expect(iceOf(OFFER)).toBe("a=ice-ufrag:new\r\na=ice-pwd:secret\r\n");
});

test("an answer goes on with the credentials and candidates of a fragment", () => {
  const before = "v=0\r\na=ice-ufrag:a\r\na=ice-pwd:b\r\na=candidate:1 old\r\na=end-of-candidates\r\na=mid:0\r\n";
  const fragment = "a=ice-lite\r\na=ice-ufrag:c\r\na=ice-pwd:d\r\na=candidate:2 new\r\na=end-of-candidates\r\n";
  expect(withIce(before, fragment)).toBe(
    "v=0\r\na=ice-ufrag:c\r\na=ice-pwd:d\r\na=candidate:2 new\r\na=mid:0\r\n",
  );
});
