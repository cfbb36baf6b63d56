import { expect, test } from "vitest";
import { level, read } from "../src/route";

const at = (path: string) => read(new URL(path, "https://meet.example"));

test("a link names its session, and may hold a token", () => {
  expect(at("/m/acme/weekly")).toEqual({ tenant: "acme", session: "weekly" });
  expect(at("/m/acme/weekly?token=a.b.c")).toEqual({ tenant: "acme", session: "weekly", token: "a.b.c" });
});

test.each(["/", "/m", "/m/acme", "/m/acme/weekly/more", "/m/a%2Fb/c", "/m/acme/x+y", `/m/acme/${"x".repeat(49)}`])(
  "%s is no link to a meeting", (path) => expect(at(path)).toBeUndefined(),
);

test("what people type becomes one level of a topic", () => {
  expect(level("  Ärzte & Pflege  ")).toBe("Arzte-Pflege");
  expect(level("///")).toBe("");
  expect(level("x".repeat(100))).toHaveLength(48);
});
