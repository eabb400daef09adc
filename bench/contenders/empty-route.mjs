import { serveRoute } from '../harness/route.mjs';

/** Reads the body, does nothing, answers: what the framework alone costs. */
export async function setup() {}

export async function serve() {
  return serveRoute(async ({ key }) => ({ id: key }));
}
