import { applyDecorators } from '@nestjs/common';
import { Transform } from 'class-transformer';
import { ValidateIf } from 'class-validator';

/**
 * The field may be absent, and is validated if present. class-validator's `IsOptional` also accepts null: for a filter that
 * narrows an action down, a variable that a client forgot to set would then select everything.
 */
export function Optional(): PropertyDecorator {
  return ValidateIf((_, value) => value !== undefined);
}

/** Like Optional, but null means absent: responses use null for absent fields, and clients send them back. */
export function Nullable(): PropertyDecorator {
  return applyDecorators(
    Transform(({ value }) => value ?? undefined),
    Optional(),
  );
}
