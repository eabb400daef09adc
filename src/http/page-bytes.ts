/** What the rows of one page may have together; one row alone may have more. Each is in memory several times on its way out. */
export const PAGE_BYTES = 1024 * 1024;

/** Of a row within a page: whether there is still room for it. */
export interface Sized {
  readonly fits: boolean;
}

/**
 * A page of SQL that ends where its rows become too large together, in the database: the client would hold all of them.
 * The first that does not fit comes too, and tells that there is more, as the one beyond the limit does.
 */
export function withinBytes(page: string, order: string): string {
  return `
    SELECT sized.*, nth = 1 OR total <= ${PAGE_BYTES} AS fits FROM (
      SELECT page.*, row_number() OVER upwards AS nth, sum(octet_length((page.*)::text)) OVER upwards AS total,
             octet_length((page.*)::text) AS bytes
      FROM (${page}) AS page WINDOW upwards AS (ORDER BY ${order} ROWS UNBOUNDED PRECEDING)
    ) AS sized WHERE nth <= 2 OR total - bytes <= ${PAGE_BYTES}`;
}
