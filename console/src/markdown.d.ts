/** The build puts the text of a Markdown file in. */
declare module '*.md' {
  const text: string;
  export default text;
}
