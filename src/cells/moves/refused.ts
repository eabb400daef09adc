/** The slot cannot be moved as things are; nothing was lost. The message is for operators. */
export class MoveRefused extends Error {}
