/** What `make bench-web` is asked for. */

import { OUT } from "../test/people";

const SECONDS = 20;
/** Nine rows of this are within the time that Vitest gives an experiment. */
const SECONDS_MAX = 600;

/** Where reports go. */
export const FOLDER = OUT;

/** Of each measurement. */
export function seconds(): number {
  const wanted = process.env["BENCH_SECONDS"] || String(SECONDS);
  const seconds = Number(wanted);
  if (!Number.isInteger(seconds) || seconds < 1 || seconds > SECONDS_MAX) {
    throw new Error(`SECONDS=${wanted}: give a whole number from 1 to ${SECONDS_MAX}`);
  }
  return seconds;
}

/** As it is typed to repeat a run. */
export function command(experiment: string): string {
  return `make bench-web EXPERIMENT=${experiment} SECONDS=${seconds()}`;
}
