import { Global, Module } from '@nestjs/common';
import { AuditController } from './audit/audit.controller.ts';
import { AuditLog } from './audit/audit-log.ts';
import { ConsoleController } from './console/console.controller.ts';
import { ConsoleFiles } from './console/console-files.ts';
import { DocsController } from './docs/docs.controller.ts';
import { HttpMetrics } from './http-metrics.ts';
import { ApiKeyStore } from './keys/api-key-store.ts';
import { ApiKeysController } from './keys/api-keys.controller.ts';
import { ApiKeys } from './keys/api-keys.ts';
import { OpenApi } from './openapi.ts';
import { ResponsesInFlight } from './responses-in-flight.ts';
import { Callers } from './session/callers.ts';
import { SessionController } from './session/session.controller.ts';
import { SessionKeys } from './session/session-keys.ts';
import { Sessions } from './session/sessions.ts';
import { SettingsController } from './settings/settings.controller.ts';
import { SharedReads } from './shared-reads.ts';

@Global()
@Module({
  controllers: [
    ApiKeysController,
    AuditController,
    ConsoleController,
    DocsController,
    SessionController,
    SettingsController,
  ],
  providers: [
    ApiKeyStore,
    ApiKeys,
    AuditLog,
    OpenApi,
    HttpMetrics,
    ResponsesInFlight,
    SessionKeys,
    Sessions,
    Callers,
    ConsoleFiles,
    SharedReads,
  ],
  exports: [ApiKeys, AuditLog, HttpMetrics, ResponsesInFlight, Callers, SharedReads],
})
export class HttpModule {}
