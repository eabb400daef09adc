/** The service cannot start with the read models that it was given; the message has one line per fault. */
export class ReadModelsError extends Error {}
