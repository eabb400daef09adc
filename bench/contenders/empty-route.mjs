import { serveRoute } from '../harness/route.mjs';

/** Reads the body, does nothing, responds: the cost of the framework alone. */
export async function setup() {}

export async function serve() {
  return serveRoute(async ({ key }) => ({ id: key }));
}
