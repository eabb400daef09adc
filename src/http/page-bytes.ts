/** Maximum total size of the rows of a page; a single row may be larger. Each row is in memory several times when sent. */
export const PAGE_BYTES = 1024 * 1024;

/** Added to each row of `withinBytes`: whether the page has room for it. */
export interface Sized {
  readonly fits: boolean;
}

/**
 * Wraps the SQL of a page so that it ends where the rows exceed PAGE_BYTES. This is done in the database, because the
 * client would hold all rows in memory. The first row that does not fit is returned too: like the row beyond the limit, it
 * means that there is another page.
 */
export function withinBytes(page: string, order: string): string {
  return `
    SELECT sized.*, nth = 1 OR total <= ${PAGE_BYTES} AS fits FROM (
      SELECT page.*, row_number() OVER upwards AS nth, sum(octet_length((page.*)::text)) OVER upwards AS total,
             octet_length((page.*)::text) AS bytes
      FROM (${page}) AS page WINDOW upwards AS (ORDER BY ${order} ROWS UNBOUNDED PRECEDING)
    ) AS sized WHERE nth <= 2 OR total - bytes <= ${PAGE_BYTES}`;
}
