import { loadSettings } from '../../src/config/settings.ts';

/** The message with which these settings are refused. */
export function settingsError(environment: Record<string, string>): string {
  try {
    loadSettings(environment);
  } catch (error) {
    return (error as Error).message;
  }
  throw new Error(`${JSON.stringify(environment)} was accepted`);
}
