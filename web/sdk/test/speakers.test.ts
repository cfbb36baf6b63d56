import { expect, test } from "vitest";
import { Speakers } from "../src/speakers.ts";

const LOUD = 0.2;

test("whoever goes on speaking becomes the main speaker, and stays so in silence", () => {
  const speakers = new Speakers();
  expect(speakers.hear(0, new Map([["m1", LOUD], ["m2", 0]]))).toBe(true);
  expect([...speakers.speaking]).toEqual(["m1"]);
  expect(speakers.main).toBeUndefined();
  for (let now = 200; now <= 1_000; now += 200) speakers.hear(now, new Map([["m1", LOUD], ["m2", 0]]));
  expect(speakers.main).toBe("m1");
  for (let now = 1_200; now <= 3_000; now += 200) speakers.hear(now, new Map([["m1", 0], ["m2", 0]]));
  expect([...speakers.speaking]).toEqual([]);
  expect(speakers.main).toBe("m1");
});

test("a cough does not take the picture from whoever speaks", () => {
  const speakers = new Speakers();
  for (let now = 0; now <= 2_000; now += 200) {
    speakers.hear(now, new Map([["m1", LOUD], ["m2", now === 1_000 ? LOUD : 0]]));
  }
  expect(speakers.main).toBe("m1");
});
