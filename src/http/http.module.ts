import { Global, Module } from '@nestjs/common';
import { AuditController } from './audit/audit.controller.ts';
import { AuditLog } from './audit/audit-log.ts';
import { DocsController } from './docs/docs.controller.ts';
import { HttpMetrics } from './http-metrics.ts';
import { ApiKeyStore } from './keys/api-key-store.ts';
import { ApiKeysController } from './keys/api-keys.controller.ts';
import { ApiKeys } from './keys/api-keys.ts';
import { OpenApi } from './openapi.ts';

@Global()
@Module({
  controllers: [ApiKeysController, AuditController, DocsController],
  providers: [ApiKeyStore, ApiKeys, AuditLog, OpenApi, HttpMetrics],
  exports: [ApiKeys, AuditLog, HttpMetrics],
})
export class HttpModule {}
